from memoranda.errors import InputError as InputError
from memoranda.errors import MemorandaError as MemorandaError
from memoranda.errors import MemoryError as MemoryError
from memoranda.items import AIMemory as AIMemory
from memoranda.items import HumanMemory as HumanMemory
from memoranda.items import MemoryItem as MemoryItem
from memoranda.items import MemoryMetadata as MemoryMetadata
from memoranda.items import MemoryStatus as MemoryStatus
from memoranda.items import SummaryMemory as SummaryMemory
from memoranda.items import SystemMemory as SystemMemory
from memoranda.items import ToolMemory as ToolMemory
from memoranda.opening import open as open
from memoranda.store.base import Store as Store
from memoranda.store.four_methods import BaseStore as BaseStore
from memoranda.store.protocol import Capability as Capability
from memoranda.store.protocol import MemoryStore as MemoryStore
from memoranda.store.short_term import ShortTermMemory as ShortTermMemory

__version__: str
