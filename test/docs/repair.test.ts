import { readFileSync } from "node:fs";
import ava from "ava";
import type { ExecutionContext } from "ava";
import type { FragmentSqlToken } from "slonik";
import { sql } from "../../db/sql.ts";
import { nameOf } from "../../modules/billing/meterEvents.rules.ts";
import { LAG_SECONDS } from "../billing/convergence/world.ts";
import { testRepairs } from "../billing/repair/testRepairs.ts";
import type { Operator } from "../billing/repair/testRepairs.ts";
import { runImpact } from "../cli/runImpact.ts";
import { REFUSED } from "../stripeDouble/faults.ts";

/* Runs every command of docs/repair.md, in the order of the page, in a scene for each case. */

// The documents of the page bill units that are in no sum.
const test = testRepairs({ hasDocuments: true });

const page = readFileSync(new URL("../../docs/repair.md", import.meta.url), "utf8");

/** The cases of the page by their numbers, with the commands of their shell blocks. */
const CASES = new Map(
  [...page.matchAll(/^## (?<number>\d)\. (?<text>[\s\S]*?)(?=^## |(?![\s\S]))/gmu)].map(
    ({ groups }): [string, readonly string[]] => [
      groups?.["number"] ?? "",
      [...(groups?.["text"] ?? "").matchAll(/```sh\n(?<lines>[\s\S]*?)```/gu)].flatMap((block) =>
        (block.groups?.["lines"] ?? "").trim().split(/\n\s*/u),
      ),
    ],
  ),
);

/** What happens in the deployment of a scene, whose organization is the green shop. */
const setUpScene = async (operator: Operator) => {
  const { accountIds, control, customerIds, database, double } = operator;
  const [accountId = ""] = accountIds;
  const run = (...args: readonly string[]) =>
    runImpact(args, {
      env: { DATABASE_URL: database.databaseUrl, ...double.env },
      clock: operator.deps().clock,
    });
  await run("org", "update", accountId, "--name", "Green Shop");
  return {
    ...operator,
    accountId,
    customerId: customerIds[0] ?? "",
    run,
    drain: operator.send,
    /** Registers units in a minute of their own, and sends them. */
    sendNew: (count: number) => {
      operator.pass(60);
      return operator.sendNew(count);
    },
    refuse: (times = 1): void => control.addFault({ ...REFUSED, times }),
    /** Returns the names of the latest events, the latest last. */
    events: async (): Promise<readonly string[]> => (await operator.listEvents()).map(nameOf),
    change: async (changes: FragmentSqlToken, names: readonly string[]): Promise<void> => {
      const ids = names.map((name) => BigInt(name.slice(1)));
      await database.db.query(sql.typeAlias("void")`
        UPDATE meter_event SET ${changes} WHERE id = ANY(${sql.array(ids, "int8")})
      `);
    },
  };
};

type Scene = Awaited<ReturnType<typeof setUpScene>>;

/** Splits a command line as a shell does, without the program's name. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"(?<quoted>[^"]*)"|(?<plain>\S+)/gu)]
    .map(({ groups }) => groups?.["quoted"] ?? groups?.["plain"] ?? "")
    .slice(1);

type Play = {
  /** What stands for the page's examples, such as E5. */
  readonly names: Readonly<Record<string, string>>;
  readonly before?: Readonly<Record<string, () => Promise<unknown>>>;
  /** The exit codes other than 0. */
  readonly exitCodes?: Readonly<Record<string, readonly number[]>>;
};

const play = async (t: ExecutionContext, scene: Scene, number: string, given: Play) => {
  const lines = CASES.get(number) ?? [];
  t.true(lines.length > 0);
  const outputs: string[] = [];
  for (const line of lines) {
    t.regex(line, /^impact /u);
    await given.before?.[line]?.();
    const words = wordsOf(line).map((word) => given.names[word] ?? word);
    const { exitCode, stdout, stderr } = await scene.run(...words);
    t.true((given.exitCodes?.[line] ?? [0]).includes(exitCode), `${line}\n${stdout}${stderr}`);
    outputs.push(stdout + stderr);
  }
  return outputs;
};

const requireNothingOpen = async (t: ExecutionContext, { run }: Scene): Promise<void> => {
  const overview = await run("usage", "--org", "Green Shop");
  t.is(overview.exitCode, 0, overview.stdout + overview.stderr);
};

const unitsAt = ({ control }: Scene, customerId: string): number =>
  control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0);

const SCENES: Readonly<Record<string, (t: ExecutionContext, scene: Scene) => Promise<void>>> = {
  "1": async (t, scene) => {
    scene.refuse(2);
    await scene.sendNew(3);
    await scene.sendNew(4);
    const [first = "", second = ""] = await scene.events();
    const { customerId, subscriptionId } = scene.control.addSubscriber({});
    const subscriber = { cus_new: customerId, sub_new: subscriptionId };
    await play(t, scene, "1", {
      names: { E5: first, E6: second, ORG_ID: scene.accountId, ...subscriber },
    });
    await scene.drain();
    t.is(unitsAt(scene, customerId), 3);
    await requireNothingOpen(t, scene);
  },
  "2": async (t, scene) => {
    await scene.sendNew(3);
    scene.refuse();
    await scene.sendNew(4);
    const { customerId } = scene.control.addSubscriber({});
    await play(t, scene, "2", { names: { ORG_ID: scene.accountId, cus_right: customerId } });
    await scene.drain();
    t.deepEqual([unitsAt(scene, scene.customerId), unitsAt(scene, customerId)], [3, 4]);
    await requireNothingOpen(t, scene);
  },
  "3": async (t, scene) => {
    await scene.sendNew(3);
    await scene.sendNew(4);
    await scene.sendNew(5);
    const [first = "", second = "", third = ""] = await scene.events();
    await scene.change(sql.fragment`is_late = true`, [first, second]);
    const [last = ""] = CASES.get("3")?.slice(-1) ?? [];
    await play(t, scene, "3", {
      names: { E6: third },
      before: { [last]: () => scene.change(sql.fragment`is_late = true`, [third]) },
    });
    await requireNothingOpen(t, scene);
  },
  "4": async (t, scene) => {
    scene.refuse();
    const registration = await scene.sendNew(5);
    const [usage = ""] = await scene.events();
    await scene.run("usage", "close", usage, "--invoice-item", "ii_1", "--reason", "by hand");
    await scene.refund(registration, 2);
    await scene.drain();
    const [, refund = ""] = await scene.events();
    t.regex((await scene.run("usage")).stdout, /credit owed +-2/u);
    // As after a restore.
    await scene.change(sql.fragment`may_be_delivered = true`, [refund]);
    const [explained = ""] = await play(t, scene, "4", { names: { E5: refund } });
    t.regex(explained, /If a document returns it: impact usage close E\d+ --credit-note/u);
    await requireNothingOpen(t, scene);
  },
  "5": async (t, scene) => {
    scene.control.addFault({ kind: "reject_later" });
    await scene.sendNew(5);
    await scene.sendNew(6);
    const { second = 0 } = scene.control.usage({ customerId: scene.customerId }).at(-1) ?? {};
    scene.control.acceptEvent({ customerId: scene.customerId, units: 7, second });
    scene.pass(LAG_SECONDS);
    await scene.run("usage", "reconcile");
    const found = await scene.listDifferences();
    const quantities = found.map(({ quantity }) => quantity).toSorted((a, b) => a - b);
    t.deepEqual(quantities, [-7, 5]);
    const nameOfUnits = (units: number): string =>
      `D${found.find(({ quantity }) => quantity === units)?.id}`;
    await play(t, scene, "5", {
      names: { D17: nameOfUnits(5), D18: nameOfUnits(-7) },
      exitCodes: { "impact usage reconcile": [1] },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 5 + 6 + 7);
    scene.pass(LAG_SECONDS);
    t.is((await scene.run("usage", "reconcile")).exitCode, 0);
    await requireNothingOpen(t, scene);
  },
  "6": async (t, scene) => {
    await scene.sendNew(3);
    // The history that is lost sends an event that the restored one knows, and a registration that it does not.
    scene.pass(60);
    await scene.register(scene.accountId, 4);
    await scene.restore(async () => {
      await scene.drain();
      await scene.sendNew(5);
    });
    scene.pass(60);
    const outputs = await play(t, scene, "6", {
      names: {},
      before: {
        "impact usage resume": async () => {
          await scene.drain();
          scene.pass(LAG_SECONDS);
          await scene.drain();
          await scene.drain();
        },
        "impact usage reconcile": () => Promise.resolve(scene.pass(LAG_SECONDS)),
        "impact usage": () => scene.drain(),
      },
      exitCodes: { "impact usage reconcile": [1] },
    });
    for (const [index, output] of [
      [0, /Nothing was changed\. The command would end the hold of restore guard/u],
      [1, /Stripe is asked about usage from before/u],
      [2, /\[done\] {2}Stripe was asked about .*\n\[next\] {2}Find what the lost/u],
      [-3, /Ended the hold of .* \(restored disk\)\. Stripe is asked about/u],
      [-1, /Ended the hold of .* \(switchover\)/u],
    ] as const) {
      t.regex(outputs.at(index) ?? "", output);
    }
    t.is(unitsAt(scene, scene.customerId), 3 + 4);
    await requireNothingOpen(t, scene);
  },
  "7": async (t, scene) => {
    await scene.sendNew(3);
    await scene.sendNew(4);
    scene.refuse();
    await scene.sendNew(5);
    const [first = "", second = "", third = ""] = await scene.events();
    await scene.change(
      sql.fragment`state = 'failed', failure = 'unclear', may_be_delivered = true`,
      [first, second, third],
    );
    scene.pass(LAG_SECONDS);
    await play(t, scene, "7", {
      names: { E5: first, E6: second, E7: third, cus_1: scene.customerId },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 3 + 4 + 5);
    await requireNothingOpen(t, scene);
  },
  "8": async (t, scene) => {
    await scene.sendNew(3);
    scene.control.addFault({ kind: "server_error", times: 1000 });
    await scene.sendNew(4);
    await play(t, scene, "8", {
      names: {},
      before: {
        "impact usage retry --all": () => Promise.resolve(scene.control.clearFaults()),
      },
      // Neither Temporal nor a worker belongs to the scene.
      exitCodes: { "impact doctor": [1] },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 3 + 4);
    await requireNothingOpen(t, scene);
  },
};

ava("every case of docs/repair.md has a scene, and the page is short", (t) => {
  t.deepEqual([...CASES.keys()], Object.keys(SCENES));
  t.true(page.split(/\s+/u).length <= 1500);
  const inCases = [...CASES.values()].flat().length;
  t.is([...page.matchAll(/^ *impact .*$/gmu)].length, inCases, "each is run");
});

for (const [number, run] of Object.entries(SCENES)) {
  test(
    `the commands of case ${number} of docs/repair.md repair it`,
    async (t, operator) => run(t, await setUpScene(operator)),
    { accounts: 1 },
  );
}
