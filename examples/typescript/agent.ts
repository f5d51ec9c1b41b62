/**
 * An agent in TypeScript that remembers over the Model Context Protocol, with a fake model.
 *
 *     memoranda mcp --store 'sqlite:///memory.db?facts=rules' --http --user ada --trust user
 *     npm install && npm run build
 *     npm start -- http://127.0.0.1:8765/mcp
 *
 * Both sides read the token from MEMORANDA_MCP_TOKEN.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Tool } from "@modelcontextprotocol/sdk/types.js";

type Message = { role: "user" | "assistant" | "tool"; content: string };
type Reply = { text: string } | { tool: string; arguments: Record<string, unknown> };

/** Stands for a provider's API: recalls once, then answers with what it was shown. */
function model(messages: Message[], tools: Tool[]): Reply {
  const [prompt, ...rest] = messages;
  const said = prompt?.content.trimEnd().split("\n").at(-1) ?? "";
  if (!said.endsWith("?")) return { text: "I will remember that." };
  if (rest.length === 0 && tools.some((tool) => tool.name === "recall")) {
    return { tool: "recall", arguments: { query: said, limit: 3 } };
  }
  const home = /lives in ([^(\n]+)/.exec(prompt?.content ?? "");
  return { text: home ? `You live in ${home[1]?.trim()}.` : "I do not know." };
}

/** Calls a tool and returns its text. A mistake comes back as a result with a sentence that explains it. */
async function call(memory: Client, name: string, args: Record<string, unknown>): Promise<string> {
  const result = await memory.callTool({ name, arguments: args });
  const parts = result.content as { type: string; text?: string }[];
  const text = parts.map((part) => part.text ?? "").join("\n");
  if (result.isError) throw new Error(text);
  return text;
}

/** Stores what the person says, asks for the context, lets the model use the tools, and stores its answer. */
async function turn(memory: Client, conversation: string, said: string): Promise<string> {
  await call(memory, "remember", { content: said, said_by: "user", conversation });
  const context = await call(memory, "context", { question: said, conversation, tokens: 2000 });
  const { tools } = await memory.listTools();
  const messages: Message[] = [{ role: "user", content: context }];
  for (;;) {
    const reply = model(messages, tools);
    if ("text" in reply) {
      await call(memory, "remember", { content: reply.text, said_by: "assistant", conversation });
      return reply.text;
    }
    messages.push({ role: "assistant", content: JSON.stringify(reply) });
    messages.push({ role: "tool", content: await call(memory, reply.tool, reply.arguments) });
  }
}

const [url = "http://127.0.0.1:8765/mcp"] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.MEMORANDA_MCP_TOKEN}` };
const memory = new Client({ name: "typescript-agent", version: "1.0.0" });
await memory.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
try {
  for (const [conversation, said] of [
    ["january", "I live in Lisbon and I am allergic to peanuts."],
    ["march", "I moved to Porto."],
    ["june", "Where do I live?"],
  ] as const) {
    console.log(`${said} -> ${await turn(memory, conversation, said)}`);
  }
} finally {
  await memory.close();
}
