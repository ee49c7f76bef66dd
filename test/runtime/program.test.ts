import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import test from "ava";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { inChunks, joinPieces } from "../../runtime/inChunks.ts";

/** In the table of the system's sockets. */
const TIME_WAIT = "06";

test("a free port is kept from sockets that ask for any port, and can be listened on immediately", async (t) => {
  const port = await findFreePort();
  if (process.platform === "linux") {
    const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
    const sockets = (await readFile("/proc/net/tcp", "utf8"))
      .split("\n")
      .map((line) => line.trim().split(/\s+/u))
      .filter(([, address]) => address === local);
    t.deepEqual(
      sockets.map(([, , , state]) => state),
      [TIME_WAIT],
    );
  }
  const server = createServer().listen(port, "127.0.0.1");
  t.teardown(() => server.close());
  await t.notThrowsAsync(once(server, "listening"));
});

const CHUNK_BYTES = 64 * 1024;

const never = new Promise<never>(() => undefined);

test("small pieces are joined to a chunk, and large ones are divided into chunks of 64 KiB", async (t) => {
  async function* pieces(): AsyncGenerator<string | Buffer, void, void> {
    yield "a".repeat(400);
    yield "a".repeat(600);
    yield Buffer.from("b".repeat(2 * CHUNK_BYTES));
    yield "c";
    yield "d";
  }

  const chunks: Buffer[] = [];
  for await (const chunk of inChunks(pieces())) {
    chunks.push(chunk);
  }

  t.deepEqual(
    chunks.map(({ length }) => length),
    [1000, CHUNK_BYTES, CHUNK_BYTES, 2],
  );
  t.is(Buffer.concat(chunks).toString(), `${"a".repeat(1000)}${"b".repeat(2 * CHUNK_BYTES)}cd`);
});

async function* slowPieces(): AsyncGenerator<string, void, void> {
  yield "[";
  yield " ";
  await never;
}

test("a piece is not held back for long while the source waits for the next one", async (t) => {
  const { value } = await inChunks(slowPieces()).next();

  t.is(value?.toString(), "[ ");
});

test("the pieces of a page are joined to pieces of a chunk, and written one after the other", (t) => {
  let written = 0;
  function* pieces(): Generator<string | Buffer, void, void> {
    for (; written < 200; written += 1) {
      yield written % 2 === 0 ? "é".repeat(500) : Buffer.from("é".repeat(500));
    }
  }

  const joined = joinPieces(pieces());
  const first = joined.next().value;

  t.is(first?.length, 65_000);
  t.true(written < 70);
  const rest = Buffer.concat([...joined]);
  t.is(Buffer.concat([first ?? Buffer.alloc(0), rest]).toString(), "é".repeat(100_000));
});
