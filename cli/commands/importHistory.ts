import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import type { ImportSummary } from "../../modules/history/importLine.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import { verifyImport } from "../../modules/history/verifyImport.ts";
import { openAccount } from "../accountOptions.ts";
import { parsePath } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { actorOf, operatorOption, reasonOption } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { createProgressLine, yieldingNote } from "../output/createProgressLine.ts";
import { printObjects, printResult } from "../output/print.ts";
import { openHistory, withHistory } from "./historyFiles.ts";
import type { HistoryOptions } from "./historyFiles.ts";
import { createRejects } from "./importRejects.ts";

type ImportOptions = ChangeOptions &
  HistoryOptions & {
    readonly orderPlanting?: true;
    readonly rejects?: string;
    readonly dryRun?: true;
    readonly verify?: true;
  };

type Purpose = Parameters<typeof importHistory>[3]["purpose"];

/** What a verification finds besides the lines; null for an import and a dry run. */
type Verification = Awaited<ReturnType<typeof verifyImport>> | null;

const NAME_OF_NEW = {
  import: "new",
  "dry run": "would be new",
  verification: "missing",
} as const satisfies Record<Purpose, string>;

const printSummary = (
  io: Io,
  { lines, bad, kinds }: ImportSummary,
  purpose: Purpose,
  verification: Verification,
): void => {
  printObjects(
    io,
    Object.entries(kinds)
      .filter(([, outcomes]) => Object.values(outcomes).some((count) => count > 0))
      .map(([kind, { new: added, ...others }]) =>
        Object.assign({ kind, [NAME_OF_NEW[purpose]]: added }, others),
      ),
  );
  say(io, `${counted(lines, "line")} read, ${grouped(bad)} bad.`);
  for (const rows of [verification?.imported ?? [], verification?.counters ?? []]) {
    if (rows.length > 0) {
      io.stdout.write("\n");
      printObjects(io, rows);
    }
  }
};

/** @throws CommandError if lines were rejected, or if a verification finds a difference */
const requireSuccess = (
  { lines, bad, kinds }: ImportSummary,
  purpose: Purpose,
  verification: Verification,
): void => {
  const sum = (name: "new" | "refunded_since" | "conflict") =>
    Object.values(kinds).reduce((total, outcomes) => total + outcomes[name], 0);
  const rejected = sum("conflict") + bad;
  if (verification) {
    const different = rejected + sum("new") + sum("refunded_since");
    const kindsDifferent = verification.imported.filter((each) => each.records !== each.in_files);
    if (different + kindsDifferent.length + verification.counters.length > 0) {
      throw new CommandError(
        EXIT.failed,
        `The files and the database differ: ${counted(different, `of ${counted(lines, "line")} is`, `of ${counted(lines, "line")} are`)} missing, different or bad; ${counted(kindsDifferent.length, "kind has another number", "kinds have another number")} of imported records; ${counted(verification.counters.length, "total of the API differs from its", "totals of the API differ from their")} records.`,
      );
    }
  }
  if (rejected > 0) {
    throw new CommandError(
      EXIT.failed,
      `${purpose === "import" ? "Not imported" : "Cannot be imported"}: ${rejected} of ${counted(lines, "line")} (${counted(sum("conflict"), "conflict")}, ${bad} bad).`,
    );
  }
};

const purposeOf = ({ verify, dryRun }: ImportOptions): Purpose => {
  if (verify) {
    return "verification";
  }
  return dryRun ? "dry run" : "import";
};

const runImport = async (
  context: CliContext,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const { io, clock } = context;
  const { mode } = options;
  const purpose = purposeOf(options);
  const isImport = purpose === "import";
  const readLines = await openHistory(context, paths, options);
  const { db, account } = await openAccount(context, options);
  const actor = actorOf(options);
  const progress = createProgressLine(io);
  const rejects = await createRejects(io, options.rejects, paths, progress.clear);
  if (isImport) {
    await recordAction(db, actor, clock.now(), {
      action: "import.history",
      accountId: account.id,
      details: { mode, files: paths.join(", "), ordersPlanting: options.orderPlanting === true },
    });
  }
  const pace = await context.connections.pace();
  const startedAtMs = performance.now();
  const owner = { accountId: account.id, mode, isStore: account.type === "store" };
  const run = (): Promise<ImportSummary> =>
    importHistory(
      { db, clock, actor, pace },
      owner,
      readLines(account, mode),
      {
        purpose,
        ordersPlanting: options.orderPlanting === true,
        charityProvider: account.charityProvider,
      },
      {
        onRejected: rejects.add,
        onProgress: ({ lines }) => {
          const rate = Math.round((lines / (performance.now() - startedAtMs)) * 1000);
          progress.update(
            `${counted(lines, "line")}, ${grouped(rate)} a second${yieldingNote(pace)}`,
          );
        },
      },
    );
  const summary = await run().catch(async (error: unknown) => {
    progress.clear();
    // The first error is the reason.
    await rejects.end().catch(() => undefined);
    if (isImport) {
      say(io, "The import stopped. Run it again to complete it; nothing is imported twice.");
    }
    throw error;
  });
  progress.clear();
  await rejects.end();
  const verification = options.verify ? await verifyImport(db, owner, summary) : null;
  const { records: _records, ...counts } = summary;
  printResult(io, { dry_run: !isImport, ...counts, ...verification }, () =>
    printSummary(io, summary, purpose, verification),
  );
  requireSuccess(summary, purpose, verification);
};

const HISTORY_HELP = `
FILE holds one JSON object per line, or CSV with a header and commas, semicolons, tabs or
bars; in UTF-8 or UTF-16; plain or gzip; - reads standard input. The fields are those of
the API's lists, and kind:
  {"kind":"tree","id":"t-1001","count":3,"created_at":"2024-05-01T09:30:00Z"}
  tree, bottle   count, fractional_count, refunded_count
  donation       amount_cents, ein, nonprofit_id, charity_name
  all            id, created_at, idempotency_key, attribution, metadata, refunded
  evidence       the response to GET /evidence/tree/{id}, and country, region; with
                 --source, after the registrations
  of a store     customer_name, customer_email, customer_id, order_id, notes,
                 unit_price_cents (what a reversal returns to the balance)
In CSV, metadata is a JSON object and an empty cell is a field that is not given. The
opening balance of a store is a top-up: impact store topup STORE --reference opening-balance

A record keeps its id, which may be any text of at most 64 characters, and its
idempotency key: a client that repeats a key gets its record back. Imported records
count in totals and lists. They are never billed here, so registrations cannot be
refunded. Their trees are not planted again, unless --order-planting asks for it.

An import can be repeated, and an interrupted one is completed by running it again: a
line that is there with the same content is skipped. If it says that more of an imported
record is refunded, the difference is subtracted from the totals; nothing is credited.
One whose id or key is there with other content is a conflict. A line needs an id or a
key. While clients register, the import yields to them and takes several times as long.
The exit code is 1 if a line was not imported.

--verify compares every line of the same files with what is recorded, the number of
imported records with that of the files, and the totals of the API with all records. The
exit code is 1 if anything differs.`;

export const addImportHistoryCommand = (group: Command, context: CliContext): void => {
  withHistory(
    group
      .command("history")
      .description("Import registrations and donations that another system recorded and billed"),
  )
    .option("--order-planting", "also order the imported trees from the planting partner")
    .option("--rejects <file>", "file for the rejected lines, with numbers and reasons", parsePath)
    .option("--dry-run", "report what would be imported, and change nothing")
    .addOption(
      new Option(
        "--verify",
        "compare the files with what was imported, and change nothing",
      ).conflicts(["dryRun", "orderPlanting"]),
    )
    .addOption(reasonOption())
    .addOption(operatorOption())
    .addHelpText("after", HISTORY_HELP)
    .action((paths, options) => runImport(context, paths, options));
};
