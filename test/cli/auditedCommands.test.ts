import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { setUpUsage } from "../billing/repair/usageSetup.ts";
import type { UsageSetup } from "../billing/repair/usageSetup.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { createEmptyDatabase, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { getCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";
import { buildTestProgram, impactOf, listCommands, readJson, runImpact } from "./runImpact.ts";

const test = testWithDatabase();

/** Commands that only read, check or send requests as a client. All others must add an audit entry. */
const READING = [
  "org list",
  "store list",
  "key list",
  "audit list",
  "statement",
  "usage list",
  "usage explain",
  // It compares, and stores what it found.
  "usage reconcile",
  "charity search",
  "webhook list",
  "webhook deliveries",
  "webhook listen",
  "evidence order list",
  "completion",
  "doctor",
  "workflow list",
];

type Scenario = {
  /** Without `--as`. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
};
type SetUp = (t: DatabaseTest) => Promise<Scenario>;

const REASON = ["--reason", "ticket 12"];

const stripeEnv = ({ double }: Pick<UsageSetup, "double">) => ({
  STRIPE_SECRET_KEY: double.secretKey,
  STRIPE_API_BASE: double.url,
});

/** Returns how a command is run with a failed meter event. */
const withFailedEvent = async (t: DatabaseTest, ...args: readonly string[]): Promise<Scenario> => {
  const scene = await setUpUsage(t);
  await scene.send(4);
  const [event = ""] = await scene.failedEvents();
  return { args: [event, ...args], env: stripeEnv(scene) };
};

const newStore = async (t: DatabaseTest): Promise<string> =>
  (await createTestStore(t.context.db)).id;

const newOrganization = async (t: DatabaseTest): Promise<string> =>
  (await createTestOrganization(t.context.db)).id;

const createKey = async (t: DatabaseTest): Promise<string> => {
  const id = await newOrganization(t);
  return t.context.db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM api_key WHERE account_id = ${id} LIMIT 1
  `);
};

/** How each writing command is run so that it changes something. */
const WRITING: Readonly<Record<string, SetUp>> = {
  "org create": () => Promise.resolve({ args: ["--name", "New"] }),
  "org update": async (t) => ({ args: [await newOrganization(t), "--name", "Renamed"] }),
  "certificate revoke": async (t) => {
    const { db } = t.context;
    const accountId = await newOrganization(t);
    const { id } = await registerFor(db, accountId);
    const owner = { accountId, mode: "live" } as const;
    return { args: [await getCertificateToken({ db, clock: systemClock }, owner, id, null)] };
  },
  "store create": () => Promise.resolve({ args: ["--domain", "new.example"] }),
  "store update": async (t) => ({ args: [await newStore(t), "--tree-price", "0.70"] }),
  "store topup": async (t) => ({ args: [await newStore(t), "--amount", "5"] }),
  "store adjust": async (t) => ({ args: [await newStore(t), "--amount", "5", ...REASON] }),
  "store forget": async (t) => ({ args: [await newStore(t), "--customer-id", "7"] }),
  // It changes nothing, but somebody has seen personal data.
  "store export-customer": async (t) => ({ args: [await newStore(t), "--customer-id", "7"] }),
  // An organization's lists name nobody, and have no entry.
  export: async (t) => ({ args: ["trees", "--org", await newStore(t), ...REASON] }),
  "key issue": async (t) => ({ args: ["--org", await newOrganization(t), "--mode", "live"] }),
  "key revoke": async (t) => ({ args: [await createKey(t)] }),
  refund: async (t) => {
    const scene = await setUpUsage(t);
    await scene.setCustomer();
    return { args: [await scene.register(3), ...REASON], env: stripeEnv(scene) };
  },
  "usage retry": (t) => withFailedEvent(t, "--absent"),
  "usage close": (t) => withFailedEvent(t, "--invoice-item", "ii_1", ...REASON),
  "usage hold": async (t) => {
    await impactOf(t)("usage", "resume");
    return { args: REASON };
  },
  "usage resume": async (t) => {
    await impactOf(t)("usage", "hold", ...REASON);
    return { args: [] };
  },
  "charity import": async () => {
    const path = join(process.env["TMPDIR"] ?? "/tmp", `audited-${crypto.randomUUID()}.csv`);
    const header =
      "EIN,NAME,ICO,STREET,CITY,STATE,ZIP,GROUP,SUBSECTION,AFFILIATION,CLASSIFICATION,RULING,DEDUCTIBILITY,FOUNDATION,ACTIVITY,ORGANIZATION,STATUS,TAX_PERIOD,ASSET_CD,INCOME_CD,FILING_REQ_CD,PF_FILING_REQ_CD,ACCT_PD,ASSET_AMT,INCOME_AMT,REVENUE_AMT,NTEE_CD,SORT_NAME";
    await writeFile(path, `${header}\n`);
    return { args: [path] };
  },
  "import history": async (t) => ({
    args: ["-", "--org", await newOrganization(t)],
    stdin: '{"kind":"tree","id":"t-1","count":3,"created_at":"2024-05-01T09:30:00Z"}\n',
  }),
  "import key": async (t) => ({
    args: ["--org", await newOrganization(t), "--mode", "live"],
    stdin: crypto.randomUUID(),
  }),
  "import slug": async (t) => ({
    args: [crypto.randomUUID(), "--org", await newOrganization(t)],
  }),
};

/** Writing commands whose own tests check their audit entries, because they need a scene of their own. */
const CHECKED_ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  "test/events/endpoints.test.ts": ["create", "update", "delete", "rotate", "ping", "recover"].map(
    (name) => `webhook ${name}`,
  ),
  "test/planting/orders/reports.test.ts": ["evidence record", "evidence withdraw"],
  "test/cli/find.test.ts": ["find"],
  below: ["migrate"],
};

test("every command is known as reading, or has a scenario that checks its audit entry", async (t) => {
  const leaves = listCommands(await buildTestProgram()).filter(
    ({ command }) => command.commands.length === 0,
  );
  t.deepEqual(
    leaves.map(({ line }) => line.join(" ")).toSorted(),
    [READING, Object.keys(WRITING), Object.values(CHECKED_ELSEWHERE)].flat(2).toSorted(),
  );
});

/** Actions whose names differ from their command's. */
const ACTIONS: Readonly<Record<string, string>> = { refund: "refund.registration" };

const entries = z.array(
  z.looseObject({ reason: z.string().nullable(), details: z.record(z.string(), z.unknown()) }),
);

const namesIn = (value: unknown): readonly string[] => {
  const names: string[] = [];
  JSON.stringify(value, (name, inner: unknown) => {
    names.push(name);
    return inner;
  });
  return names;
};

for (const [command, setUp] of Object.entries(WRITING)) {
  test.serial(`impact ${command} adds an entry with the operator to the audit log`, async (t) => {
    const { args, env, stdin = "" } = await setUp(t);
    const operator = `auditor of ${command}`;

    const settings = { DATABASE_URL: t.context.databaseUrl, ...env };
    // An export is a document of its own.
    const json = command.includes("export") ? [] : ["--json"];
    const run = await runImpact([...command.split(" "), ...args, ...json, "--as", operator], {
      env: settings,
      stdin,
    });

    t.is(run.exitCode, 0, run.stderr);
    t.notThrows(() => json.length === 0 || readJson(run));
    const action = ACTIONS[command] ?? command.replace(" ", ".").replaceAll("-", "_");
    const list = ["audit", "list", "--action", action, "--operator", operator, "--json"];
    const found = entries.parse(readJson(await runImpact(list, { env: settings })));
    t.is(found.length, 1);
    const personal = namesIn(found[0]?.details).filter((name) => !/^[a-z0-9_]*$/u.test(name));
    t.deepEqual(personal, []);
    t.is(found[0]?.reason ?? null, args.includes("--reason") ? "ticket 12" : null);
  });
}

test("impact migrate adds an entry for each migration", async (t) => {
  const DATABASE_URL = await createEmptyDatabase(t);
  const impact = impactOf(t, { env: { DATABASE_URL } });
  const run = await impact.json("migrate", "--as", "Ada", "--reason", "upgrade");
  await impact.ok("migrate", "--as", "Eve");
  const { applied } = z.object({ applied: z.array(z.string()) }).parse(run);
  t.true(applied.length > 1);
  t.like(
    await impact.json("audit", "list"),
    applied
      .toReversed()
      .map((name) => ({ operator: "Ada", reason: "upgrade", details: { applied: [name] } })),
  );
});
