import type { Command } from "commander";
import { Argument, Option } from "commander";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { counted } from "../../../domain/counted.ts";
import { formatHead, formatRow } from "../../../program/exports/formatRows.ts";
import type { ExportFormat } from "../../../program/exports/formatRows.ts";
import { inChunks, joinPieces } from "../../../program/exports/inChunks.ts";
import { recordListExport } from "../../../services/stores/privacy/recordListExport.ts";
import { parseMode, parsePath } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { actorOf, operatorOption, reasonOption } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { writeOut } from "../../output/print.ts";
import { escapeUnsafeInLines } from "../../output/printable.ts";
import { writeNewFile } from "../../output/writeNewFile.ts";
import { yieldingNote } from "../../output/yieldingNote.ts";
import { requireTimeRange, sinceOption, untilOption } from "../../timeRange.ts";
import type { TimeRange } from "../../timeRange.ts";
import { openAccount, withAccount } from "../../accountOptions.ts";
import type { AccountOptions } from "../../accountOptions.ts";
import { LISTS, readOfOrganization, readOfStore } from "./readExport.ts";
import type { List, Rows } from "./readExport.ts";

const EXPORT_HELP = `
Exports the same rows as the API's lists, newest first. An organization has trees,
bottles, donations and usage (billing statuses); a store has trees, bottles, donations
and balance (its ledger). The files of a store contain personal data of its customers,
so the audit log records each export of them.
In CSV, text that a spreadsheet would run as a formula gets an apostrophe before it.
On a terminal, control characters are escaped; in files and pipes they are not.
An --output file appears when it is complete.

Examples:
  impact export trees --org <id> --since 2026-01-01 --output trees.csv
  impact export balance --store demo.myshopify.com --format ndjson | gzip > ledger.gz`;

type ExportOptions = OperatorOptions &
  TimeRange &
  AccountOptions & {
    readonly mode: Mode;
    readonly format: ExportFormat;
    readonly output?: string;
  };

/** Formats the rows, and reports how many there are. */
async function* formatPages(
  { columns, pages }: Rows,
  format: ExportFormat,
  onRows: (rows: number) => void,
): AsyncGenerator<string | Buffer, void, void> {
  yield formatHead(format, columns);
  let rows = 0;
  function* formatRows(page: Iterable<object>): Generator<string, void, void> {
    for (const row of page) {
      rows += 1;
      yield formatRow(format, columns, row);
    }
  }
  for await (const page of pages) {
    yield* joinPieces(formatRows(page));
    onRows(rows);
  }
}

/** Escapes what a terminal would obey. Each piece is of whole rows, so none ends within a character or a line's end. */
async function* escapeForTerminal(
  pieces: AsyncIterable<string | Buffer>,
): AsyncGenerator<string, void, void> {
  for await (const piece of pieces) {
    yield piece.toString().split("\r\n").map(escapeUnsafeInLines).join("\r\n");
  }
}

const writeToStdout = async (io: Io, chunks: AsyncIterable<Buffer>): Promise<void> => {
  for await (const chunk of chunks) {
    await writeOut(io, chunk);
  }
};

const exportList = async (
  context: CliContext,
  list: List,
  options: ExportOptions,
): Promise<void> => {
  const { io, connections, clock } = context;
  const { mode, format, since, until, output } = options;
  requireTimeRange(options);
  const { account } = await openAccount(context, options);
  const owner = { accountId: account.id, mode };
  const db = await connections.bulkDatabase();
  const pace = await connections.pace();
  const range = {
    ...(since === undefined ? {} : { from: since }),
    ...(until === undefined ? {} : { until }),
  };
  const readRows = async (): Promise<Rows> => {
    if (account.type === "store") {
      const rows = readOfStore(db, owner, list, range);
      await recordListExport({ db, clock, actor: actorOf(options) }, owner, { list, ...range });
      return rows;
    }
    const deps = {
      db,
      clock,
      pace,
      copies: await connections.copies(),
      billing: await connections.billing(),
    };
    return readOfOrganization(deps, owner, list, range);
  };
  const progress = createProgressBar(io);
  let exported = 0;
  const pieces = formatPages(await readRows(), format, (rows) => {
    exported = rows;
    progress.update(null, `${counted(rows, "row")}${yieldingNote(pace)}`);
  });
  const isShown = output === undefined && io.stdout.isTTY === true;
  const chunks = inChunks(isShown ? escapeForTerminal(pieces) : pieces);
  try {
    await (output === undefined ? writeToStdout(io, chunks) : writeNewFile(io, output, chunks));
  } finally {
    progress.clear();
  }
  say(io, `Exported ${counted(exported, "row")}${output === undefined ? "" : ` to ${output}`}.`);
};

export const defineExportCommand = (command: Command, context: CliContext): void => {
  withAccount(command.addArgument(new Argument("<list>", "list to export").choices(LISTS)))
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(
      new Option("--format <format>", "format of the file")
        .choices(["csv", "excel", "ndjson"])
        .default("csv"),
    )
    .addOption(sinceOption())
    .addOption(untilOption())
    .option("--output <file>", "file to create (default: stdout)", parsePath)
    .addOption(reasonOption())
    .addOption(operatorOption())
    .addHelpText("after", EXPORT_HELP)
    .action((list: List, options: ExportOptions) => exportList(context, list, options));
};
