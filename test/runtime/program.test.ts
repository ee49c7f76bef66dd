import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import test from "ava";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { inChunks } from "../../runtime/inChunks.ts";

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

// oxlint-disable-next-line typescript/require-await -- it stands in for queries.
async function* readPages(): AsyncGenerator<Iterable<string>, void, void> {
  yield ["a".repeat(400), "a".repeat(600)];
  yield Array.from({ length: 100 }, () => "é".repeat(1000));
  yield ["]"];
}

test("the pieces of a list are joined to chunks, each with whole pieces", async (t) => {
  const chunks: string[] = [];
  for await (const chunk of inChunks(readPages())) {
    chunks.push(chunk);
  }

  t.deepEqual(
    chunks.map(({ length }) => length),
    [33_000, 33_000, 33_000, 2001],
  );
  t.is(chunks.join(""), `${"a".repeat(1000)}${"é".repeat(100_000)}]`);
});
