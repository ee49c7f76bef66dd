import type { ExecutionContext } from "ava";
import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { Agent } from "node:https";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { openDatabase } from "../../db/openDatabase.ts";
import { sql } from "../../db/sql.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { systemClock } from "../../runtime/clock.ts";
import { runConcurrently } from "../../runtime/runConcurrently.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { copyDatabase, testWithDatabase } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { choosePorts, startHaproxy } from "./startProxy.ts";
import type { Proxy } from "./startProxy.ts";

type TestAccount = { readonly key: string; readonly customerId: string };

const CLIENTS = 16;
/** Of the account that moves. */
const MOVING_CLIENTS = 4;
/** Between the requests of a client during the move. Without it, the clients take the CPU time that the commands need. */
const PAUSE_MS = 100;

const planted = z.object({
  tree_details: z.tuple([z.object({ id: z.string(), created_at: z.iso.datetime() })]),
});
/** Clients of all accounts, which come through the proxy. */
const createClients = (t: ExecutionContext, { call }: Pick<Proxy, "call">) => {
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  /** The trees of each customer at each second that responses have confirmed. */
  const confirmed = new Map<string, number>();

  /** Returns the status of a response, if one arrived, and the id of the registration. */
  const plant = async ({ key, customerId }: TestAccount, orderId: string, count = 1) => {
    try {
      const { status, body } = await call("standalone", "/plant/trees", {
        headers: { Authorization: key },
        body: JSON.stringify({ count, idempotency_key: orderId }),
        agent,
      });
      if (status !== 200) {
        return { status };
      }
      const [tree] = planted.parse(JSON.parse(body)).tree_details;
      const at = `${customerId} ${Math.floor(Date.parse(tree.created_at) / 1000)}`;
      confirmed.set(at, (confirmed.get(at) ?? 0) + count);
      return { status, id: tree.id };
    } catch {
      return { status: null };
    }
  };

  return {
    confirmed,
    plant,
    /** Repeats a request until it is confirmed, as a client does. Returns the id, and the statuses before. */
    plantUntilConfirmed: async (account: TestAccount, orderId: string, count = 1) => {
      const failures: (number | null)[] = [];
      for (;;) {
        const { status, id } = await plant(account, orderId, count);
        if (id !== undefined) {
          return { id, failures };
        }
        failures.push(status);
        await delay(100);
      }
    },
    /** Plants a tree for each account, and returns how often each status was the response. */
    plantForAll: async (accounts: readonly TestAccount[], orderId: string) => {
      const statuses = new Map<number | null, number>();
      const send = async (account: TestAccount): Promise<void> => {
        const { status } = await plant(account, orderId);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      };
      await runConcurrently(accounts, send, { concurrency: CLIENTS });
      return statuses;
    },
  };
};

type Clients = ReturnType<typeof createClients>;

/** Registers trees of an account that moves and of the others of its cell, until it is stopped. */
const startLoad = (
  t: ExecutionContext,
  { plant, plantUntilConfirmed }: Clients,
  moving: TestAccount,
  others: readonly TestAccount[],
) => {
  const ended = new AbortController();
  t.teardown(() => ended.abort());
  /** The count of each registration of the moving account. */
  const counts = new Map<string, number>();
  const failures = { moving: new Set<number | null>(), others: new Set<number | null>() };
  let requests = 0;
  const registerMoving = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      requests += 1;
      const count = 1 + (requests % 3);
      const registered = await plantUntilConfirmed(moving, `order-${requests}`, count);
      registered.failures.forEach((status) => failures.moving.add(status));
      counts.set(registered.id, count);
      await delay(PAUSE_MS);
    }
  };
  const registerOthers = async (): Promise<void> => {
    for (let turn = 0; !ended.signal.aborted; turn += 1) {
      const { status } = await plant(others[turn % others.length] ?? moving, `turn-${turn}`);
      if (status !== 200) {
        failures.others.add(status);
      }
      await delay(PAUSE_MS);
    }
  };
  const clients = [...Array.from({ length: MOVING_CLIENTS }, registerMoving), registerOthers()];
  return {
    counts,
    failures,
    stop: async (): Promise<void> => {
      ended.abort();
      await Promise.all(clients);
    },
  };
};

/* Two cells, the default one and `eu1`, behind HAProxy with deploy/haproxy/haproxy.cfg. */

const test = testWithDatabase();

const ACCOUNTS_PER_CELL = 500;
const openCell = async (t: ExecutionContext, name: "default" | "eu1", double: StripeDouble) => {
  const DATABASE_URL = await copyDatabase(t);
  const named = name === "default" ? {} : { CELL: name };
  const db = await openDatabase({ DATABASE_URL, DATABASE_POOL_SIZE: 4, CELL: undefined, ...named });
  t.teardown(() => db.end());
  const settings = {
    ...named,
    DATABASE_URL,
    TEMPORAL_NAMESPACE: (await openNamespace(t)).namespace,
    ...double.env,
    TRUSTED_PROXIES: "1",
    // Longer than HAProxy takes to notice.
    DRAIN_SECONDS: "3",
  };
  return { name, db, settings };
};
type Cell = Awaited<ReturnType<typeof openCell>>;

/** The key and the customer of an account, as `insertAccounts` makes them. */
const accountOf = ({ name }: Pick<Cell, "name">, number: number): TestAccount => {
  const random = hash("sha256", `${name} ${number}`, "base64url");
  return {
    key: `impact_prod_${name === "default" ? "" : `${name}_`}${random}`,
    customerId: `cus_${name}_${number}`,
  };
};

const insertAccounts = async (cell: Cell): Promise<readonly TestAccount[]> => {
  const accounts = Array.from({ length: ACCOUNTS_PER_CELL }, (_, number) =>
    accountOf(cell, number),
  );
  await cell.db.query(sql.typeAlias("void")`
    WITH given AS (
      SELECT gen_random_uuid() AS id, customer_id, key_hash
      FROM ${sql.unnest(
        accounts.map(({ key, customerId }) => [customerId, hash("sha256", key)]),
        ["text", "text"],
      )} AS given (customer_id, key_hash)
    ),
    inserted AS (
      INSERT INTO account (id, type, name, stripe_customer_id, stripe_customer_ids, created_at)
      SELECT id, 'organization', customer_id, customer_id, ARRAY[customer_id], now()
      FROM given
    )
    INSERT INTO api_key (id, account_id, mode, hash, hint, name, scope, created_at)
    SELECT gen_random_uuid(), id, 'live', decode(key_hash, 'hex'), 'test', 'initial', 'write', now()
    FROM given
  `);
  return accounts;
};

const list = z.object({ tree_details: z.array(z.object({ id: z.string(), count: z.int() })) });

/** Returns the ```sh blocks of a section of the operators' page. */
const readProcedure = async (heading: string): Promise<readonly string[]> => {
  const page = await readFile(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const section = page.split(`\n### ${heading}\n`)[1]?.split(/^##/mu)[0] ?? "";
  return Array.from(section.matchAll(/^ *```sh\n(?<block>.*?)^ *```$/gmsu), ({ groups }) =>
    String(groups?.["block"]),
  );
};

/** Starts both cells with their accounts, a worker and an API each, and HAProxy in front of them. */
const startCells = async (t: ExecutionContext) => {
  const double = await startStripeDouble(t);
  const { control } = double;
  const [old, eu1] = [await openCell(t, "default", double), await openCell(t, "eu1", double)];
  const accounts = { old: await insertAccounts(old), eu1: await insertAccounts(eu1) };
  for (const { customerId } of [...accounts.old, ...accounts.eu1]) {
    control.addCustomer({ id: customerId });
  }
  const [first, second, ofEu1] = [await choosePorts(), await choosePorts(), await choosePorts()];
  const startApi = (cell: Cell, { standalone, store }: typeof first) =>
    startProgram(t, "api/main.ts", {
      ...cell.settings,
      PORT: String(standalone),
      STORE_PORT: String(store),
    });
  const [oldApi, eu1Api] = await Promise.all([
    startApi(old, first),
    startApi(eu1, ofEu1),
    startProgram(t, "worker/main.ts", old.settings),
    startProgram(t, "worker/main.ts", eu1.settings),
  ]);
  const proxy = await startHaproxy(t, [first, second], ofEu1);
  return {
    control,
    cells: { old, eu1 },
    accounts,
    proxy,
    /** Kills the only API of `eu1`, and returns a function that starts it again. */
    killEu1: async (): Promise<() => Promise<unknown>> => {
      await eu1Api.kill();
      return () => startApi(eu1, ofEu1);
    },
    /** Replaces the API of the old cell as an operator does. */
    replaceOldApi: async (): Promise<void> => {
      const starts = proxy.countStarts("api2");
      await startApi(old, second);
      await eventually(() => proxy.countStarts("api2") > starts);
      const stopped = once(oldApi.process, "exit");
      oldApi.process.kill("SIGTERM");
      t.deepEqual(await stopped, [0, null]);
    },
  };
};

type Installation = Awaited<ReturnType<typeof startCells>>;

/** Writes the commands `old` and `new` of the procedure. */
const writeCommands = async (folder: string, { cells }: Installation): Promise<void> => {
  const program = fileURLToPath(new URL("../../cli/impact.js", import.meta.url));
  for (const [command, { settings }] of [
    ["old", cells.old],
    ["new", cells.eu1],
  ] as const) {
    const exports = Object.entries(settings).map(([name, value]) => `export ${name}='${value}'`);
    await writeFile(
      join(folder, command),
      ["#!/bin/sh", ...exports, `exec ${process.execPath} ${program} "$@"`, ""].join("\n"),
      { mode: 0o755 },
    );
  }
};

/** Follows the procedure of the operators' page for moving an account to `eu1`, and returns its id in the old cell. */
const moveAccount = async (
  t: ExecutionContext,
  installation: Installation,
  { customerId }: TestAccount,
): Promise<string> => {
  const { control, cells, proxy, replaceOldApi } = installation;
  const folder = await makeTestFolder(t);
  await writeCommands(folder, installation);
  const { subscriptionId } = control.addSubscriber({ customerId, cells: [null, "eu1"] });
  const accountId = await cells.old.db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM account WHERE stripe_customer_id = ${customerId}
  `);
  const blocks = await readProcedure("Move an account");
  t.is(blocks.length, 5);
  const script = [
    "set -euo pipefail",
    ...blocks.slice(0, 3),
    "echo replace the APIs",
    "read -r replaced",
    ...blocks.slice(3),
  ];
  const bash = spawn("bash", ["-c", script.join("\n")], {
    cwd: folder,
    stdio: "pipe",
    env: {
      ...process.env,
      PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}`,
      ORG: accountId,
      NAME: "Green Shop",
      CUSTOMER: customerId,
      SUBSCRIPTION: subscriptionId,
      NEW_CELL: "eu1",
      MAP: proxy.inFolder("moved.map"),
      SOCKET: proxy.inFolder("admin.sock"),
    },
  });
  t.teardown(() => bash.kill());
  const exited = once(bash, "exit");
  const notes = text(bash.stderr);
  for await (const line of createInterface(bash.stdout)) {
    if (line === "replace the APIs") {
      await replaceOldApi();
      bash.stdin.end("\n");
    }
  }
  t.deepEqual(await exited, [0, null], await notes);
  return accountId;
};

/** Returns what the double bills: the trees of each customer at each second, in all cells. */
const readBilled = ({ control }: Installation): ReadonlyMap<string, number> => {
  const billed = new Map<string, number>();
  for (const { customer, second, value } of control.usage({})) {
    const at = `${customer} ${second}`;
    billed.set(at, (billed.get(at) ?? 0) + value);
  }
  return billed;
};

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

test("one of two cells may be killed, and an account moves to the other without losing a request", async (t) => {
  const installation = await startCells(t);
  const { control, cells, accounts, proxy, killEu1 } = installation;
  const clients = createClients(t, proxy);
  const { confirmed, plant, plantForAll, plantUntilConfirmed } = clients;
  const [moving, ...others] = accounts.old;
  if (moving === undefined) {
    throw new Error("The old cell has no account.");
  }
  const all = new Map([[200, ACCOUNTS_PER_CELL]]);
  for (const account of [moving, ...accounts.eu1.slice(0, 1)]) {
    await eventually(async () => (await plant(account, "first")).status === 200);
  }

  t.deepEqual(await plantForAll([...others, moving], "second"), all);
  t.deepEqual(await plantForAll(accounts.eu1, "second"), all);

  const restartEu1 = await killEu1();
  const [unaffected, affected] = await Promise.all([
    plantForAll(accounts.old, "third"),
    plantForAll(accounts.eu1, "third"),
  ]);
  t.deepEqual(unaffected, all, "the accounts of the other cell notice nothing");
  t.false(affected.has(200));
  await restartEu1();
  for (const account of accounts.eu1.slice(0, 20)) {
    await plantUntilConfirmed(account, "third");
  }

  const load = startLoad(t, clients, moving, others);
  const movedId = await moveAccount(t, installation, moving);
  const { size } = load.counts;
  await eventually(() => load.counts.size > size + 10);
  await load.stop();

  t.deepEqual(load.failures, { moving: new Set([503]), others: new Set() });
  const slug = await getDashboardSlug({ db: cells.old.db, clock: systemClock }, movedId);
  const page = await proxy.call("standalone", `/dashboard/${slug}`);
  t.is(page.status, 301);
  t.regex(String(page.headers["location"]), /\/dashboard\/eu1_green-shop-/u);
  const { body } = await proxy.call("standalone", "/plant/trees", {
    headers: { Authorization: moving.key },
  });
  const listed = new Map(
    list.parse(JSON.parse(body)).tree_details.map(({ id, count }) => [id, count]),
  );
  const unlisted = [...load.counts].filter(([id, count]) => listed.get(id) !== count);
  t.deepEqual(unlisted, [], "each confirmed registration is listed");
  t.is(listed.size, load.counts.size + 3, "and none twice");
  const total = sumOf(confirmed);
  await eventually(() => sumOf(readBilled(installation)) >= total);
  t.deepEqual(
    Object.fromEntries(readBilled(installation)),
    Object.fromEntries(confirmed),
    "each second of each customer is billed once",
  );
  const meters = control.usage({ customerId: moving.customerId }).map(({ meter }) => meter);
  t.deepEqual(new Set(meters), new Set(["impact_tree_planted", "impact_tree_planted_eu1"]));
});
