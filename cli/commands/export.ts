import { Argument, Option } from "@commander-js/extra-typings";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { AccountMode, AccountType, Kind } from "../../modules/records/owner.rules.ts";
import { USAGE_COLUMNS } from "../../modules/billing/billingStatus.rules.ts";
import { DONATION_COLUMNS, presentDonation } from "../../modules/charities/donations.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import {
  REGISTRATION_COLUMNS,
  presentRegistration,
} from "../../modules/registrations/presentRegistration.rules.ts";
import { formatPages } from "../../runtime/formatRows.ts";
import { inChunks } from "../../runtime/inChunks.ts";
import { presentPages, rowsOf } from "../../runtime/presentPages.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { presentEvent } from "../../modules/events/events.rules.ts";
import { readWholeFeed } from "../../modules/feed/readFeed.ts";
import { listAllDonations } from "../../modules/charities/readDonations.ts";
import type { ListContext } from "../../modules/registrations/listRegistrations.ts";
import { listRegistrations } from "../../modules/registrations/listRegistrations.ts";
import { listUsageReports } from "../../modules/registrations/readUsageReports.ts";
import { STORE_LISTS } from "../../modules/stores/storeLists.ts";
import { ACCOUNT_OPTION } from "../accountOptions.ts";
import { onlyGiven, parseMode } from "../arguments.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { OPERATOR, REASON, actorOf } from "../command.ts";
import type { Define } from "../command.ts";
import { writeOut } from "../output/print.ts";
import { createProgressLine } from "../output/createProgressLine.ts";
import { escapeUnsafeInLines } from "../output/printable.ts";
import { requireTimeRange, SINCE, UNTIL } from "../timeRange.ts";

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

type ReadRows = (context: ListContext & BillingContext, owner: AccountMode, range: Range) => Rows;

const ALL = { startingAfter: null, limit: null } as const;

const registrationsOf =
  (kind: Kind): ReadRows =>
  (context, owner, range) => ({
    columns: REGISTRATION_COLUMNS,
    pages: presentPages(
      rowsOf(listRegistrations(context, { ...owner, kind }, range, ALL).pages),
      presentRegistration,
    ),
  });

const listOfStore =
  (list: keyof typeof STORE_LISTS): ReadRows =>
  ({ db }, owner, range) => ({
    columns: STORE_LISTS[list].columns,
    pages: STORE_LISTS[list].readAll(db, owner, range),
  });

const READERS: Readonly<Record<AccountType, Readonly<Partial<Record<List, ReadRows>>>>> = {
  organization: {
    trees: registrationsOf("tree"),
    bottles: registrationsOf("bottle"),
    donations: ({ db }, owner, range) => ({
      columns: DONATION_COLUMNS,
      pages: presentPages(listAllDonations(db, owner, range), presentDonation),
    }),
    usage: (context, owner, range) => ({
      columns: USAGE_COLUMNS,
      pages: rowsOf(listUsageReports(context, owner, { ...ALL, kinds: KINDS, ...range })),
    }),
    events: (context, owner, range) => ({
      columns: ["id", "timestamp", "type", "data"],
      pages: presentPages(readWholeFeed(context, owner, range), presentEvent),
    }),
  },
  store: {
    trees: listOfStore("trees"),
    bottles: listOfStore("bottles"),
    donations: listOfStore("donations"),
    balance: (context, owner, range) => {
      if (Object.keys(range).length > 0 || owner.mode === "test") {
        throw invalidRequest(
          "The ledger is exported whole, and only in live mode: omit --since, --until and --mode.",
        );
      }
      return listOfStore("balance")(context, owner, range);
    },
  },
};

/** Escapes what a terminal would obey. Each chunk is of whole rows, so none ends within a character or a line's end. */
async function* escapeForTerminal(chunks: AsyncIterable<string>) {
  for await (const chunk of chunks) {
    yield chunk.split("\r\n").map(escapeUnsafeInLines).join("\r\n");
  }
}

const EXPORT_HELP = `
Exports the same rows as the API's lists, newest first. An organization has trees,
bottles, donations, usage (billing statuses) and events (of 30 days, oldest first); a
store has trees, bottles, donations and balance (its ledger). The files of a store contain
personal data of its customers, so the audit log records each export of them; umask 077
keeps other users of the machine from reading them.
In CSV, text that a spreadsheet would run as a formula gets an apostrophe before it.
On a terminal, control characters are escaped; in files and pipes they are not.
A file is complete only if the exit code is 0.

Examples:
  impact export trees --org <id> --since 2026-01-01 > trees.csv
  impact export balance --org demo.myshopify.com --format ndjson | gzip > ledger.gz`;

export const defineExportCommand: Define = (command, { io, connections, clock, ...cli }) => {
  command
    .addArgument(new Argument("<list>", "list to export").choices(LISTS))
    .requiredOption(...ACCOUNT_OPTION)
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(
      new Option("--format <format>", "format of the file")
        .choices(["csv", "excel", "ndjson"])
        .default("csv"),
    )
    .option(...SINCE)
    .option(...UNTIL)
    .option(...REASON)
    .option(...OPERATOR)
    .addHelpText("after", EXPORT_HELP)
    .action(async (list, options) => {
      const { mode, format, since, until } = options;
      requireTimeRange(options);
      const { account } = await cli.openAccount(options);
      const owner = { accountId: account.id, mode };
      const db = await connections.bulkDatabase();
      const range = onlyGiven({ from: since, until });
      const read = READERS[account.type][list];
      if (!read) {
        throw invalidRequest(
          `${account.type === "store" ? "A store" : "An organization"} has no list of ${list}. See impact export --help.`,
        );
      }
      const billing = await connections.billing();
      const rows = read({ db, lists: db, clock, billing }, owner, range);
      if (account.type === "store") {
        // Before the first row is read: an entry may name an export that failed, but no export lacks an entry.
        await recordAction(db, actorOf(options), clock.now(), {
          action: "export",
          accountId: account.id,
          details: { list, mode, ...range },
        });
      }
      const progress = createProgressLine(io);
      let exported = 0;
      const counting = presentPages(rows.pages, (row) => {
        exported += 1;
        return row;
      });
      const formatted = inChunks(formatPages(format, rows.columns, counting));
      const chunks = io.stdout.isTTY === true ? escapeForTerminal(formatted) : formatted;
      try {
        for await (const chunk of chunks) {
          await writeOut(io, chunk);
          progress.update(counted(exported, "row"));
        }
      } finally {
        progress.clear();
      }
      cli.say(`Exported ${counted(exported, "row")}.`);
    });
};
