import { Option } from "@commander-js/extra-typings";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import { LINE_FIELDS, LINE_KINDS } from "../../modules/history/importedRecords.rules.ts";
import type { ParseOptions } from "../../modules/history/importedRecords.rules.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import type { ImportLine, ImportSummary, Rejection } from "../../modules/history/importLine.ts";
import { parseCells, parseJsonLine } from "../../modules/history/parseLine.ts";
import { text as textField } from "../../modules/records/fields.rules.ts";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import { ACCOUNT_OPTION } from "../accountOptions.ts";
import { parseMode, parserOf } from "../arguments.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { addChange } from "../command.ts";
import type { Cli, Define } from "../command.ts";
import { createPrinter, writeOut } from "../output/print.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openInput, peek } from "../input/openInput.ts";
import type { Input } from "../input/openInput.ts";
import { readCsv } from "../input/readCsv.ts";
import { readLines, splitLines } from "../input/readLines.ts";
import { createProgressLine } from "../output/createProgressLine.ts";
import { escapeUnsafe, printable } from "../output/printable.ts";

/** Of a ZIP archive, which a spreadsheet's own format is. */
const ZIP_START = "PK\u0003\u0004";

async function* readFiles(
  inputs: readonly Input[],
  options: ParseOptions,
): AsyncGenerator<ImportLine, void, void> {
  for (const { name: file, bytes } of inputs) {
    const { start, all } = await peek(splitLines(bytes), ({ text }) => text?.trim() !== "");
    const first = start.at(-1)?.text?.trim() ?? "";
    if (first.startsWith(ZIP_START)) {
      throw invalidRequest(
        `${file} is a ZIP archive or a spreadsheet. Save the sheet as CSV, and import that file.`,
      );
    }
    if (first === "" || /^[{[]/u.test(first)) {
      for await (const line of readLines(all)) {
        yield "problem" in line
          ? { file, text: null, ...line }
          : { file, ...line, ...parseJsonLine(line.text, options) };
      }
    } else {
      for await (const row of readCsv(file, all, LINE_FIELDS)) {
        yield "problem" in row
          ? { file, ...row }
          : { file, number: row.number, ...parseCells(row.cells, options) };
      }
    }
  }
}

type Purpose = Parameters<typeof importHistory>[3]["purpose"];

/** What a purpose calls new lines, and how it fails. */
const TEXTS = {
  import: { new: "new", failure: "Not imported" },
  "dry run": { new: "would be new", failure: "Cannot be imported" },
  verification: { new: "missing", failure: "Missing, different or bad" },
} as const satisfies Record<Purpose, object>;

/** Of the rejected lines, how many are messages, and how much of a reason. */
const SHOWN = 20;
const REASON_SHOWN = 500;

/**
 * Returns a function that reports a rejected line: the first ones as messages, and with `--rejects` all of them as JSON, whose
 * `text` is the line, to be corrected and imported.
 */
const reportRejected = ({ io, say }: Cli, printsAll: boolean, beforeMessage: () => void) => {
  let rejected = 0;
  return async ({ line, outcome, reason }: Rejection): Promise<void> => {
    const { file, number, text } = line;
    rejected += 1;
    if (rejected <= SHOWN) {
      beforeMessage();
      const prefix = outcome === "bad" ? "" : `${outcome}: `;
      const shown = `${prefix}${printable(reason, REASON_SHOWN)}`;
      say(`${printable(file, 200)}, line ${number}: ${shown}`);
    } else if (rejected === SHOWN + 1 && !printsAll) {
      beforeMessage();
      say("More lines are rejected. To see all of them, use --rejects.");
    }
    if (printsAll) {
      const entry = JSON.stringify({ file, line: number, outcome, reason, text });
      await writeOut(io, `${escapeUnsafe(entry)}\n`);
    }
  };
};

const printSummary = (
  { printObjects, say }: Pick<Cli, "printObjects" | "say">,
  { lines, bad, kinds }: ImportSummary,
  purpose: Purpose,
): void => {
  printObjects(
    Object.entries(kinds)
      .filter(([, outcomes]) => Object.values(outcomes).some((count) => count > 0))
      .map(([kind, { new: added, ...others }]) =>
        Object.assign({ kind, [TEXTS[purpose].new]: added }, others),
      ),
  );
  say(`${counted(lines, "line")} read, ${grouped(bad)} bad.`);
};

/** @throws CommandError if lines were rejected, or if a verification finds a difference */
const requireSuccess = ({ lines, bad, kinds }: ImportSummary, purpose: Purpose): void => {
  const sum = (name: "new" | "refunded_since" | "conflict") =>
    Object.values(kinds).reduce((total, outcomes) => total + outcomes[name], 0);
  const missing = purpose === "verification" ? sum("new") + sum("refunded_since") : 0;
  const failed = sum("conflict") + bad + missing;
  if (failed > 0) {
    throw new CommandError(
      EXIT.failed,
      `${TEXTS[purpose].failure}: ${failed} of ${counted(lines, "line")} (${counted(sum("conflict"), "conflict")}, ${bad} bad).`,
    );
  }
};

/** The name of another system. It distinguishes its records from those of other systems, so it has no slash. */
const parseSource = parserOf(
  textField(100).regex(/^[^/\s](?:[^/]*[^/\s])?$/u),
  "1 to 100 characters without slashes",
);

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

--verify compares every line of the same files with what is recorded. The exit code is 1
if anything differs.

--rejects prints the rejected lines with their numbers and reasons, and the summary on
standard error. umask 077 keeps other users of the machine from reading the file:
  impact import history FILE --org ID --rejects > rejects.ndjson
  jq -r .text rejects.ndjson > corrected.ndjson`;

export const addImportHistoryCommand: Define = (group, cli) => {
  const { io, clock } = cli;
  addChange(
    group,
    "history",
    "Import registrations and donations that another system recorded and billed",
  )
    .argument("<files...>", "paths of files, or - for standard input")
    .requiredOption(...ACCOUNT_OPTION)
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(new Option("--kind <kind>", "kind of the lines without a kind").choices(LINE_KINDS))
    .option("--source <name>", "system from which the evidence is imported", parseSource)
    .option("--order-planting", "also order the imported trees from the planting partner")
    .option("--rejects", "print the rejected lines as JSON, with numbers and reasons")
    .option("--dry-run", "report what would be imported, and change nothing")
    .addOption(
      new Option(
        "--verify",
        "compare the files with what was imported, and change nothing",
      ).conflicts(["dryRun", "orderPlanting"]),
    )
    .addHelpText("after", HISTORY_HELP)
    .action(async (paths, options) => {
      const { mode, rejects = false, orderPlanting: ordersPlanting = false } = options;
      const purpose = options.verify ? "verification" : options.dryRun ? "dry run" : "import";
      const isImport = purpose === "import";
      // All files are found before the first is read, so that a misspelt name changes nothing.
      const inputs = await Promise.all(paths.map((path) => openInput(path, io)));
      const { account } = await cli.openAccount(options);
      const { actor } = await cli.openChange(options);
      const db = await cli.connections.bulkDatabase();
      if (isImport) {
        await recordAction(db, actor, clock.now(), {
          action: "import.history",
          accountId: account.id,
          details: { mode, files: paths.join(", "), ordersPlanting },
        });
      }
      const isStore = account.type === "store";
      const lines = readFiles(inputs, {
        now: clock.now(),
        fractionalCounting: account.fractionalCounting,
        storeMode: isStore ? mode : null,
        kind: options.kind ?? null,
        source: options.source ?? null,
      });
      const progress = createProgressLine(io);
      const startedAtMs = performance.now();
      const summary = await importHistory(
        { db, clock, actor },
        { accountId: account.id, mode, isStore },
        lines,
        { purpose, ordersPlanting, charityProvider: account.charityProvider },
        {
          onRejected: reportRejected(cli, rejects, progress.clear),
          onProgress: (count) => {
            const rate = Math.round((count / (performance.now() - startedAtMs)) * 1000);
            progress.update(`${counted(count, "line")}, ${grouped(rate)} a second`);
          },
        },
      )
        .catch((error: unknown) => {
          if (isImport) {
            progress.clear();
            cli.say("The import stopped. Run it again to complete it; nothing is imported twice.");
          }
          throw error;
        })
        .finally(progress.clear);
      const printer = rejects ? createPrinter({ ...io, stdout: io.stderr }) : cli;
      printer.printResult({ dry_run: !isImport, ...summary }, () =>
        printSummary(printer, summary, purpose),
      );
      requireSuccess(summary, purpose);
    });
};
