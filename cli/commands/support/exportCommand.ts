import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { Argument, Option } from "commander";
import type { DatabasePool } from "slonik";
import type { CopyPool } from "../../../db/copyPool.ts";
import { listStoreRegistrations } from "../../../db/registrations/storeRegistrations.ts";
import { listStoreDonations } from "../../../db/stores/storeDonations.ts";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { AccountMode, Kind, Mode } from "../../../domain/accounts/accounts.ts";
import { counted } from "../../../domain/counted.ts";
import { formatHead, formatRows } from "../../../program/exports/formatRows.ts";
import type { ExportFormat } from "../../../program/exports/formatRows.ts";
import { inChunks, joinPieces } from "../../../program/exports/inChunks.ts";
import { presentPages } from "../../../program/exports/presentPages.ts";
import {
  BALANCE_COLUMNS,
  DONATION_COLUMNS,
  presentBalanceEntry,
  presentDonation,
  presentStoreDonation,
  presentStoreRecord,
  presentUsage,
  REGISTRATION_COLUMNS,
  STORE_DONATION_COLUMNS,
  STORE_RECORD_COLUMNS,
  USAGE_COLUMNS,
} from "../../../program/exports/presentRows.ts";
import { systemClock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { listAllDonations } from "../../../services/charities/donations/listAllDonations.ts";
import { listRegistrationRows } from "../../../services/registrations/listRegistrations.ts";
import { listUsageReports } from "../../../services/registrations/readUsageReports.ts";
import { recordListExport } from "../../../services/stores/privacy/recordListExport.ts";
import { readWholeLedger, readWholeList } from "../../../services/stores/records/readWholeLists.ts";
import { parseId, parseMode, parsePath } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { actorOf, operatorOption, reasonOption } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { escapeUnsafeInLines } from "../../output/printable.ts";
import { yieldingNote } from "../../output/yieldingNote.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { unwritableFileError } from "../../output/unwritableFileError.ts";
import { requireTimeRange, sinceOption, untilOption } from "../../timeRange.ts";
import type { TimeRange } from "../../timeRange.ts";
import { findNamedStore } from "../stores/findNamedStore.ts";

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

const LISTS = ["trees", "bottles", "donations", "usage", "balance"] as const;
type List = (typeof LISTS)[number];

/** The end of the name of an incomplete file. */
const PARTIAL = /^[0-9a-f]{8}\.part$/u;

/** What ends a command: Ctrl-C, a supervisor, a closed terminal. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

type ExportOptions = OperatorOptions &
  TimeRange & {
    readonly org?: string;
    readonly store?: string;
    readonly mode: Mode;
    readonly format: ExportFormat;
    readonly output?: string;
  };

type Rows = {
  readonly columns: readonly string[];
  readonly pages: AsyncIterable<readonly object[]>;
};

type Range = { readonly from?: Date; readonly until?: Date };

const kindOf = (list: "trees" | "bottles"): Kind => (list === "trees" ? "tree" : "bottle");

const notListed = (list: List, owner: string): CommandError =>
  new CommandError(EXIT.usage, `${owner} has no list of ${list}. See impact export --help.`);

const readOfOrganization = (
  deps: { readonly db: DatabasePool; readonly copies: CopyPool; readonly billing: Billing },
  owner: AccountMode,
  list: List,
  range: Range,
): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
      return {
        columns: REGISTRATION_COLUMNS,
        pages: listRegistrationRows(
          { ...deps, clock: systemClock },
          { ...owner, kind: kindOf(list) },
          range,
          { startingAfter: null, limit: null },
        ).pages,
      };
    case "donations":
      return {
        columns: DONATION_COLUMNS,
        pages: presentPages(listAllDonations(deps.db, owner, range), presentDonation),
      };
    case "usage":
      return {
        columns: USAGE_COLUMNS,
        pages: presentPages(
          listUsageReports(deps, owner, {
            kinds: KINDS,
            state: null,
            startingAfter: null,
            limit: null,
            from: range.from ?? null,
            until: range.until ?? null,
          }),
          presentUsage,
        ),
      };
    case "balance":
      throw notListed(list, "an organization");
  }
};

const readOfStore = (db: DatabasePool, owner: AccountMode, list: List, range: Range): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
      return {
        columns: STORE_RECORD_COLUMNS,
        pages: presentPages(
          readWholeList(
            (part) => listStoreRegistrations(db, { ...owner, kind: kindOf(list) }, range, part),
            null,
          ),
          presentStoreRecord,
        ),
      };
    case "donations":
      return {
        columns: STORE_DONATION_COLUMNS,
        pages: presentPages(
          readWholeList((part) => listStoreDonations(db, owner, range, part), null),
          presentStoreDonation,
        ),
      };
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
      throw notListed(list, "a store");
  }
};

/** Formats the rows, and reports how many there are. */
async function* formatPages(
  { columns, pages }: Rows,
  format: ExportFormat,
  onRows: (rows: number) => void,
): AsyncGenerator<string | Buffer, void, void> {
  yield formatHead(format, columns);
  let rows = 0;
  for await (const page of pages) {
    yield* joinPieces(formatRows(format, columns, page));
    rows += page.length;
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

const writeToStdout = async ({ stdout }: Io, chunks: AsyncIterable<Buffer>): Promise<void> => {
  for await (const chunk of chunks) {
    if (!stdout.write(chunk)) {
      await once(stdout, "drain");
    }
  }
};

/** @throws CommandError if the file exists */
const requireAbsent = async (path: string): Promise<void> => {
  if (await stat(path).catch(() => null)) {
    throw new CommandError(EXIT.failed, `${path} exists. Remove it, or choose another --output.`);
  }
};

/** Lists the incomplete files of exports to this path that were killed or are running. */
const listPartials = async (path: string): Promise<readonly string[]> => {
  const prefix = `${basename(path)}.`;
  const names = await readdir(dirname(path)).catch(() => []);
  return names
    .filter((name) => name.startsWith(prefix) && PARTIAL.test(name.slice(prefix.length)))
    .map((name) => join(dirname(path), name));
};

/**
 * Runs work on a file, and removes the file if the work fails or a signal ends the process. After SIGKILL it stays.
 */
const removeUnlessDone = async (path: string, work: () => Promise<void>): Promise<void> => {
  const onSignal = (signal: NodeJS.Signals): void => {
    rmSync(path, { force: true });
    // The listener is gone, so this ends the process as the signal would have.
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) {
    process.once(signal, onSignal);
  }
  try {
    await work();
  } catch (error) {
    // The first error is the reason.
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  } finally {
    for (const signal of SIGNALS) {
      process.off(signal, onSignal);
    }
  }
};

/**
 * Writes a file under another name first, so that an incomplete one is never taken for the export. That name is unique, so
 * what a killed export left does not stop the next one. It may hold customers' data, so only its owner may read it.
 */
const writeToFile = async (io: Io, path: string, chunks: AsyncIterable<Buffer>): Promise<void> => {
  await requireAbsent(path);
  for (const left of await listPartials(path)) {
    say(io, `Warning: ${left} is incomplete. Remove it if no other export is writing it.`);
  }
  const partial = `${path}.${randomBytes(4).toString("hex")}.part`;
  await removeUnlessDone(partial, async () => {
    const file = await open(partial, "wx", 0o600).catch((error: unknown) => {
      throw unwritableFileError(path, EXIT.usage, error);
    });
    await pipeline(chunks, file.createWriteStream());
    // Another export to this path may have ended meanwhile.
    await requireAbsent(path);
    await rename(partial, path);
  });
};

const exportList = async (
  { io, connections, clock }: Context,
  list: List,
  options: ExportOptions,
): Promise<void> => {
  const { org, store, mode, format, since, until, output } = options;
  requireTimeRange(options);
  if ((org === undefined) === (store === undefined)) {
    throw new CommandError(EXIT.usage, "Pass either --org or --store.");
  }
  const db = await connections.bulkDatabase();
  const pace = await connections.pace();
  const range = {
    ...(since === undefined ? {} : { from: since }),
    ...(until === undefined ? {} : { until }),
  };
  const readRows = async (): Promise<Rows> => {
    if (store !== undefined) {
      const { id: accountId } = await findNamedStore(db, store);
      const owner = { accountId, mode };
      const rows = readOfStore(db, owner, list, range);
      await recordListExport({ db, clock, actor: actorOf(options) }, owner, { list, ...range });
      return rows;
    }
    const { id: accountId } = await getOrganization(db, org ?? "");
    const deps = { db, copies: await connections.copies(), billing: await connections.billing() };
    return readOfOrganization(deps, { accountId, mode }, list, range);
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
    await (output === undefined ? writeToStdout(io, chunks) : writeToFile(io, output, chunks));
  } finally {
    progress.clear();
  }
  say(io, `Exported ${counted(exported, "row")}${output === undefined ? "" : ` to ${output}`}.`);
};

export const defineExportCommand = (command: Command, context: Context): void => {
  command
    .addArgument(new Argument("<list>", "list to export").choices(LISTS))
    .option("--org <id>", "id of the organization", parseId)
    .option("--store <store>", "domain or id of the store")
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(
      new Option("--format <format>", "format of the file")
        .choices(["csv", "ndjson"])
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
