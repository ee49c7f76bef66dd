import test from "ava";
import { z } from "zod";
import { createConnect } from "../../db/connections/connect.ts";
import { migrate, requireCurrentSchema } from "../../db/migrate.ts";
import { sql } from "../../db/sql.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { openTestPool } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { startCluster } from "../support/startCluster.ts";

/** Returns a URL with the hosts of all of these URLs, which are alike otherwise. */
const combine = (...urls: readonly string[]): string => {
  const [first = ""] = urls;
  return first.replace(new URL(first).host, urls.map((url) => new URL(url).host).join(","));
};

const portRow = z.strictObject({ port: z.string() });
const readPort = sql.fragment`SELECT current_setting('port') AS port`;

test("every connection is to the server that accepts writes, also after a failover, and an error names each server", async (t) => {
  const cluster = await startCluster(t);
  const { primaryUrl, standbyUrl } = cluster;
  const [primaryPort, standbyPort] = [new URL(primaryUrl).port, new URL(standbyUrl).port];
  const nowhere = new URL(primaryUrl);
  nowhere.port = String(await findFreePort());
  const url = combine(nowhere.href, standbyUrl, primaryUrl);

  await migrate(url);
  await requireCurrentSchema(url);
  const db = await openTestPool(t, url, 2);
  const readConnectedPort = async (): Promise<string> => {
    const { client, server } = await createConnect(url)({ connectionTimeoutMillis: 5000 });
    await client.end();
    return server.name.replace(/.*:/u, "");
  };
  const readPorts = async (): Promise<readonly string[]> => [
    await db.oneFirst(sql.type(portRow)`${readPort}`),
    await readConnectedPort(),
  ];
  t.deepEqual(await readPorts(), [primaryPort, primaryPort]);

  const error = await t.throwsAsync(
    createConnect(combine(nowhere.href, standbyUrl))({ connectionTimeoutMillis: 15_000 }),
  );
  t.is(
    error.message,
    `127.0.0.1:${nowhere.port}: connect ECONNREFUSED 127.0.0.1:${nowhere.port}; ${new URL(standbyUrl).host}: the server accepts no writes`,
  );

  await cluster.disconnectStandby();
  await cluster.failOver();

  // The broken connections are noticed one by one.
  await eventually(async () => {
    try {
      return (await readPorts()).every((port) => port === standbyPort);
    } catch {
      return false;
    }
  });
  await db.query(sql.typeAlias("void")`CREATE TABLE written ()`);
});
