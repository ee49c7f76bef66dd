import { Argument, Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import type { DatabasePool } from "slonik";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { AccountMode, Kind } from "../../modules/records/owner.rules.ts";
import { USAGE_COLUMNS } from "../../modules/billing/billingStatus.rules.ts";
import {
  DONATION_COLUMNS,
  presentDonation,
} from "../../modules/charities/presentDonation.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import {
  REGISTRATION_COLUMNS,
  presentRegistration,
} from "../../modules/registrations/presentRegistration.rules.ts";
import { BALANCE_COLUMNS, presentBalanceEntry } from "../../modules/stores/presentRecords.rules.ts";
import { formatHead, formatRow } from "../../runtime/formatRows.ts";
import type { ExportFormat } from "../../runtime/formatRows.ts";
import { inChunks } from "../../runtime/inChunks.ts";
import { presentPages, rowsOf } from "../../runtime/presentPages.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { presentEvent } from "../../modules/events/events.rules.ts";
import { readWholeFeed } from "../../modules/feed/readFeed.ts";
import { listAllDonations } from "../../modules/charities/listAllDonations.ts";
import type { ListContext } from "../../modules/registrations/context.ts";
import { listRegistrations } from "../../modules/registrations/listRegistrations.ts";
import { listUsageReports } from "../../modules/registrations/readUsageReports.ts";
import { recordListExport } from "../../modules/stores/exportCustomer.ts";
import { STORE_LISTS } from "../../modules/stores/storeLists.ts";
import { readWholeLedger } from "../../modules/stores/balances.sql.ts";
import { openAccount, requiredAccount } from "../accountOptions.ts";
import { onlyGiven, parseMode, parsePath } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { actorOf, operatorOption, reasonOption } from "../operator.ts";
import { createProgressBar, yieldingNote } from "../output/createProgressBar.ts";
import { writeOut } from "../output/print.ts";
import { escapeUnsafeInLines } from "../output/printable.ts";
import { writeNewFile } from "../output/writeNewFile.ts";
import { requireTimeRange, sinceOption, untilOption } from "../timeRange.ts";

const LISTS = [
  ...KINDS.map((kind) => `${kind}s` as const),
  "donations",
  "usage",
  "events",
  "balance",
] as const;
type List = (typeof LISTS)[number];

type Rows = {
  readonly columns: readonly string[];
  readonly pages: AsyncIterable<Iterable<object>>;
};

type Range = { readonly from?: Date; readonly until?: Date };

const KIND_OF_LIST: Readonly<Record<`${Kind}s`, Kind>> = { trees: "tree", bottles: "bottle" };

const notListed = (list: List, owner: string): CommandError =>
  new CommandError(EXIT.usage, `${owner} has no list of ${list}. See impact export --help.`);

const readOfOrganization = (
  deps: ListContext & BillingContext & { readonly pace: BulkPace },
  owner: AccountMode,
  list: List,
  range: Range,
): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
      return {
        columns: REGISTRATION_COLUMNS,
        pages: presentPages(
          rowsOf(
            listRegistrations(deps, { ...owner, kind: KIND_OF_LIST[list] }, range, {
              startingAfter: null,
              limit: null,
            }).pages,
          ),
          presentRegistration,
        ),
      };
    case "donations":
      return {
        columns: DONATION_COLUMNS,
        pages: presentPages(listAllDonations(deps.db, owner, range), presentDonation),
      };
    case "usage":
      return {
        columns: USAGE_COLUMNS,
        pages: rowsOf(
          listUsageReports(deps, owner, {
            kinds: KINDS,
            startingAfter: null,
            limit: null,
            ...range,
          }),
        ),
      };
    case "events":
      return {
        columns: ["id", "timestamp", "type", "data"],
        pages: presentPages(readWholeFeed(deps, owner, range), presentEvent),
      };
    case "balance":
      throw notListed(list, "an organization");
  }
};

const readOfStore = (db: DatabasePool, owner: AccountMode, list: List, range: Range): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
    case "donations": {
      const { columns, readAll } = STORE_LISTS[list];
      return { columns, pages: readAll(db, owner, range) };
    }
    case "balance":
      if (range.from !== undefined || range.until !== undefined || owner.mode === "test") {
        throw new CommandError(
          EXIT.usage,
          "The ledger is exported whole, and only in live mode: omit --since, --until and --mode.",
        );
      }
      return {
        columns: BALANCE_COLUMNS,
        pages: presentPages(readWholeLedger(db, owner.accountId, null), presentBalanceEntry),
      };
    case "usage":
    case "events":
      throw notListed(list, "a store");
  }
};

/** Formats the rows, and reports how many there are. */
async function* formatPages(
  { columns, pages }: Rows,
  format: ExportFormat,
  onRows: (rows: number) => void,
): AsyncGenerator<Iterable<string>, void, void> {
  yield [formatHead(format, columns)];
  let rows = 0;
  function* formatRows(page: Iterable<object>): Generator<string, void, void> {
    for (const row of page) {
      rows += 1;
      yield formatRow(format, columns, row);
    }
  }
  for await (const page of pages) {
    yield formatRows(page);
    onRows(rows);
  }
}

/** Escapes what a terminal would obey. Each chunk is of whole rows, so none ends within a character or a line's end. */
async function* escapeForTerminal(
  chunks: AsyncIterable<string>,
): AsyncGenerator<string, void, void> {
  for await (const chunk of chunks) {
    yield chunk.split("\r\n").map(escapeUnsafeInLines).join("\r\n");
  }
}

const writeToStdout = async (io: Io, chunks: AsyncIterable<string>): Promise<void> => {
  for await (const chunk of chunks) {
    await writeOut(io, chunk);
  }
};

const EXPORT_HELP = `
Exports the same rows as the API's lists, newest first. An organization has trees,
bottles, donations, usage (billing statuses) and events (of 30 days, oldest first); a
store has trees, bottles, donations and balance (its ledger). The files of a store contain
personal data of its customers, so the audit log records each export of them.
In CSV, text that a spreadsheet would run as a formula gets an apostrophe before it.
On a terminal, control characters are escaped; in files and pipes they are not.
An --output file appears when it is complete.

Examples:
  impact export trees --org <id> --since 2026-01-01 --output trees.csv
  impact export balance --org demo.myshopify.com --format ndjson | gzip > ledger.gz`;

export const defineExportCommand = (command: Command, context: CliContext): void => {
  command
    .addArgument(new Argument("<list>", "list to export").choices(LISTS))
    .addOption(requiredAccount())
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
    .action(async (list, options) => {
      const { io, connections, clock } = context;
      const { mode, format, since, until, output } = options;
      requireTimeRange(options);
      const { account } = await openAccount(context, options);
      const owner = { accountId: account.id, mode };
      const db = await connections.bulkDatabase();
      const pace = await connections.pace();
      const range = onlyGiven({ from: since, until });
      const readRows = async (): Promise<Rows> => {
        if (account.type === "store") {
          const rows = readOfStore(db, owner, list, range);
          await recordListExport({ db, clock, actor: actorOf(options) }, owner, { list, ...range });
          return rows;
        }
        const deps = {
          db,
          lists: db,
          clock,
          pace,
          billing: await connections.billing(),
        };
        return readOfOrganization(deps, owner, list, range);
      };
      const progress = createProgressBar(io);
      let exported = 0;
      const formatted = inChunks(
        formatPages(await readRows(), format, (rows) => {
          exported = rows;
          progress.update(null, `${counted(rows, "row")}${yieldingNote(pace)}`);
        }),
      );
      const isShown = output === undefined && io.stdout.isTTY === true;
      const chunks = isShown ? escapeForTerminal(formatted) : formatted;
      try {
        await (output === undefined ? writeToStdout(io, chunks) : writeNewFile(io, output, chunks));
      } finally {
        progress.clear();
      }
      say(
        io,
        `Exported ${counted(exported, "row")}${output === undefined ? "" : ` to ${output}`}.`,
      );
    });
};
