"""What SQL backends share: how an item becomes a row, and the statements, written once for every dialect.

No driver is imported here. A backend brings a :class:`Dialect`, its connections and its schema's text.
"""

from recollect.sql.dialect import Dialect
from recollect.sql.rows import ITEM_COLUMNS, Row, pack, unpack
from recollect.sql.statements import Statements

__all__ = ["ITEM_COLUMNS", "Dialect", "Row", "Statements", "pack", "unpack"]
