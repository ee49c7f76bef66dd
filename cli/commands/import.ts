import type { Command } from "commander";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { LINE_KINDS } from "../../modules/history/importedRecords.rules.ts";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import type { ImportSummary } from "../../modules/history/createReport.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import { importKey } from "../../modules/history/importKey.ts";
import { importSlug } from "../../modules/history/importSlug.ts";
import { openAccount, withAccount } from "../accountOptions.ts";
import type { AccountOptions } from "../accountOptions.ts";
import { keySettingsOf, withKeySettings } from "../apiKeys.ts";
import type { NewKeyOptions } from "../apiKeys.ts";
import { parseId, parsePath, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { withEndingSignals } from "../endingSignals.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { readSecret } from "../input/readSecret.ts";
import { say, sayError } from "../io.ts";
import { actorOf, openChange, operatorOption, reasonOption, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { createProgressBar, yieldingNote } from "../output/createProgressBar.ts";
import { printJson, printRecord, printTable } from "../output/print.ts";
import { openHistory, withHistory } from "./historyFiles.ts";
import type { HistoryOptions } from "./historyFiles.ts";
import { createRejects } from "./importRejects.ts";

type ImportKeyOptions = ChangeOptions &
  AccountOptions &
  NewKeyOptions & {
    readonly keyFile?: string;
  };

const KEY_HELP = `
Clients keep their keys after the cut-over. The key has 16 to 256 visible characters and
needs no prefix. It is never an argument, which other users of the machine could see, and
only its SHA-256 and its first four characters are stored.
  pass show old-server/live-key | impact import key --org ID --mode live`;

const addKeyCommand = (group: Command, context: CliContext): void => {
  const importingKey = group
    .command("key")
    .description("Import an API key of another system from standard input or a file");
  withAudit(
    withKeySettings(withAccount(importingKey), "imported").option(
      "--key-file <file>",
      "file with the key, readable by its owner only (chmod 600)",
    ),
  )
    .addHelpText("after", KEY_HELP)
    .action(async (options: ImportKeyOptions) => {
      const { io, clock } = context;
      const { mode } = options;
      const { db, account } = await openAccount(context, options);
      const key = await readSecret(io, options.keyFile);
      const { id, hint, isNew } = await importKey(
        { db, clock, actor: actorOf(options) },
        account,
        mode,
        key,
        keySettingsOf(options, clock.now()),
      );
      const result = { id, mode, key: `${hint}…` };
      if (options.json) {
        printJson(io, { ...result, new: isNew });
      } else {
        printRecord(io, result);
      }
      say(io, isNew ? "Imported. The key works now." : "The account has this key already.");
    });
};

/** One part of a path. */
const parseSlug = parserOf(
  text(200).regex(/^[^/?#\s]+$/u),
  "1 to 200 characters without slashes, question marks, number signs and spaces",
);

const addSlugCommand = (group: Command, context: CliContext): void => {
  withAudit(
    group
      .command("slug")
      .description("Redirect the slug of an old dashboard to the organization's dashboard")
      .argument("<slug>", "the last part of the old dashboard's path", parseSlug)
      .requiredOption("--org <id>", "id of the organization", parseId),
  ).action(async (slug: string, options: ChangeOptions & { readonly org: string }) => {
    const { io } = context;
    const deps = await openChange(context, options);
    const { dashboardSlug, isNew } = await importSlug(deps, options.org, slug);
    if (options.json) {
      printJson(io, { slug, dashboard_slug: dashboardSlug, new: isNew });
    }
    say(
      io,
      slug === dashboardSlug
        ? `/dashboard/${slug} is the dashboard itself.`
        : `/dashboard/${slug} redirects to /dashboard/${dashboardSlug}${isNew ? "" : " already"}.`,
    );
  });
};

type ImportOptions = ChangeOptions &
  HistoryOptions & {
    readonly orderPlanting?: true;
    readonly rejects?: string;
    readonly dryRun?: true;
  };

const printSummary = ({ io }: CliContext, summary: ImportSummary, isDryRun: boolean): void => {
  printTable(
    io,
    ["kind", isDryRun ? "would be new" : "new", "already there", "refunded since", "conflict"],
    LINE_KINDS.map((kind) => ({ kind, ...summary.kinds[kind] }))
      .filter((row) => row.new + row.known + row.refunded + row.conflict > 0)
      .map((row) => [row.kind, row.new, row.known, row.refunded, row.conflict]),
  );
  say(io, `${counted(summary.lines, "line")} read, ${grouped(summary.bad)} bad.`);
};

const presentSummary = (summary: ImportSummary, isDryRun: boolean) => ({
  dry_run: isDryRun,
  lines: summary.lines,
  bad: summary.bad,
  kinds: Object.fromEntries(
    LINE_KINDS.map((kind) => {
      const { new: added, known, refunded, conflict } = summary.kinds[kind];
      return [kind, { new: added, already_there: known, refunded_since: refunded, conflict }];
    }),
  ),
});

const runImport = async (
  context: CliContext,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const { io, clock } = context;
  const { mode, json } = options;
  const isDryRun = options.dryRun === true;
  const history = await openHistory(context, paths, options);
  const { db, account } = await openAccount(context, options);
  const actor = actorOf(options);
  const bar = createProgressBar(io);
  const rejects = await createRejects(io, options.rejects, paths, bar.clear);
  if (!isDryRun) {
    await recordAction(db, actor, clock.now(), {
      action: "import.history",
      accountId: account.id,
      details: { mode, files: paths.join(", "), ordersPlanting: options.orderPlanting === true },
    });
  }
  const pace = await context.connections.pace();
  const startedAtMs = performance.now();
  let linesDone = 0;
  const sayInterruption = (exitCode: number): void => {
    bar.clear();
    const advice = isDryRun ? "" : " Run it again to complete it; nothing is imported twice.";
    const message = `The import was interrupted after at least ${counted(linesDone, "line")}.${advice}`;
    sayError(io, { message, exitCode }, json === true);
  };
  const runImporting = () =>
    importHistory(
      { db, clock, actor, pace },
      { accountId: account.id, mode },
      history.lines(account, mode),
      {
        isDryRun,
        ordersPlanting: options.orderPlanting === true,
        charityProvider: account.charityProvider,
        isStore: account.type === "store",
      },
      {
        onRejected: rejects.add,
        onProgress: ({ lines }) => {
          linesDone = lines;
          const rate = Math.round((lines / (performance.now() - startedAtMs)) * 1000);
          bar.update(
            history.shareRead(),
            `${counted(lines, "line")}, ${grouped(rate)} a second${yieldingNote(pace)}`,
          );
        },
      },
    );
  const summary = await withEndingSignals(sayInterruption, runImporting).catch(
    async (error: unknown) => {
      bar.clear();
      // The first error is the reason.
      await rejects.end().catch(() => undefined);
      if (!isDryRun) {
        say(io, "The import stopped. Run it again to complete it; nothing is imported twice.");
      }
      throw error;
    },
  );
  bar.clear();
  if (json) {
    printJson(io, presentSummary(summary, isDryRun));
  } else {
    printSummary(context, summary, isDryRun);
  }
  await rejects.end();
  const conflicts = LINE_KINDS.reduce((sum, kind) => sum + summary.kinds[kind].conflict, 0);
  if (conflicts + summary.bad > 0) {
    throw new CommandError(
      EXIT.failed,
      `${isDryRun ? "Cannot be imported" : "Not imported"}: ${conflicts + summary.bad} of ${counted(summary.lines, "line")} (${counted(conflicts, "conflict")}, ${summary.bad} bad).`,
    );
  }
};

const HISTORY_HELP = `
FILE holds one JSON object per line, or CSV with a header; plain or gzip; - reads
standard input. The fields are those of the API's lists, and kind:
  {"kind":"tree","id":"t-1001","count":3,"created_at":"2024-05-01T09:30:00Z"}
  tree, bottle   count, fractional_count, refunded_count
  donation       amount_cents, ein, nonprofit_id, charity_name
  all            id, created_at, idempotency_key, attribution, metadata, refunded
  evidence       the response to GET /evidence/tree/{id}, and country, region; with
                 --source, after the registrations
  of a store     customer_name, customer_email, customer_id, order_id, notes,
                 unit_price_cents (what a reversal returns to the balance)
  balance_entry  of a store's ledger, oldest first: id, entry_kind (topup, adjustment,
                 tree, bottle, donation, refund), amount_cents (negative for what was
                 spent), balance_cents, quantity, reference, and the note of a topup or
                 adjustment
In CSV, metadata is a JSON object and an empty cell is a field that is not given.

A record keeps its id, which may be any text of at most 64 characters, and its
idempotency key: a client that repeats a key gets its record back. Imported records
count in totals and lists. They are never billed here, so registrations cannot be
refunded. Their trees are not planted again, unless --order-planting asks for it.

An import can be repeated, and an interrupted one is completed by running it again: a
line that is there with the same content is skipped. If it says that more of an imported
record is refunded, the difference is subtracted from the totals; nothing is credited.
One whose id or key is there with other content is a conflict. Equal lines without id and
key in one run are separate records; import them in one run. While clients register, the
import yields to them and takes several times as long. The exit code is 1 if a line was
not imported.`;

const addHistoryCommand = (group: Command, context: CliContext): void => {
  withHistory(
    group
      .command("history")
      .description("Import registrations and donations that another system recorded and billed"),
  )
    .option("--order-planting", "also order the imported trees from the planting partner")
    .option("--rejects <file>", "file for the rejected lines, with numbers and reasons", parsePath)
    .option("--dry-run", "report what would be imported, and change nothing")
    .addOption(reasonOption())
    .addOption(operatorOption())
    .addHelpText("after", HISTORY_HELP)
    .action((paths: readonly string[], options: ImportOptions) =>
      runImport(context, paths, options),
    );
};

export const addImportCommands = (group: Command, context: CliContext): void => {
  addHistoryCommand(group, context);
  addKeyCommand(group, context);
  addSlugCommand(group, context);
};
