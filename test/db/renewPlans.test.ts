import test from "ava";
import type { DriverClient } from "slonik";
import { createPlanRenewal } from "../../db/connections/renewPlans.ts";

/** A connection that notes its statements. The first one that reads the sizes of tables waits until `grow` is called. */
const startConnections = () => {
  const growth = Promise.withResolvers<void>();
  const renew = createPlanRenewal();
  const connect = () => {
    const sent: string[] = [];
    const query = async (text: string) => {
      if (!text.includes("pg_stat_get_live_tuples")) {
        sent.push(text);
        return { rows: [] };
      }
      await growth.promise;
      return { rows: [{ id: "1", magnitude: 2 }] };
    };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all that the renewal uses.
    const client = renew({ query } as unknown as DriverClient);
    return {
      sent,
      run: async (text: string, name?: string): Promise<void> => {
        await client.query(text, [], name === undefined ? undefined : { name });
      },
    };
  };
  return { connect, grow: growth.resolve };
};

test("a connection discards its plans once, before its next prepared statement, when another one finds that a table has grown", async (t) => {
  const { connect, grow } = startConnections();
  const [checking, other, late] = [connect(), connect(), connect()];
  const checked = checking.run("SELECT 1", "one");
  await other.run("SELECT 1", "one");

  grow();
  await checked;
  await other.run("BEGIN");
  t.deepEqual(other.sent, ["SELECT 1", "BEGIN"]);
  await other.run("SELECT 2", "two");
  await other.run("SELECT 1", "one");
  t.deepEqual(other.sent.slice(2), ["DISCARD PLANS", "SELECT 2", "SELECT 1"]);

  // Their plans were made afterwards.
  await checking.run("SELECT 2", "two");
  await late.run("SELECT 1", "one");
  t.deepEqual(checking.sent, ["SELECT 1", "SELECT 2"]);
  t.deepEqual(late.sent, ["SELECT 1"]);
});
