import type { Command } from "commander";
import { counted } from "../../runtime/counted.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { isLedgerEqual, verifyImport } from "../../modules/history/verifyImport.ts";
import type { Verification } from "../../modules/history/verifyImport.ts";
import { openAccount } from "../accountOptions.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { createProgressBar, yieldingNote } from "../output/createProgressBar.ts";
import { printJson, printRows, printTable } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";
import { printable } from "../output/printable.ts";
import { openHistory, withHistory } from "./historyFiles.ts";
import type { HistoryOptions } from "./historyFiles.ts";

const VERIFY_HELP = `
Pass the files of \`impact import history\`. The command compares their records,
quantities (units, or cents of donations) and refunds, by kind, UTC month and attribution,
with the imported records, and ignores records that were created here. It compares a
store's ledger entry by entry, the store's balance with the sum of its entries, and the
totals that the API returns with all records. The exit code is 1 if anything differs.`;

type VerifyOptions = HistoryOptions & JsonOption;

const printVerification = (io: Io, verification: Verification): void => {
  printRows(io, verification.files, {
    kind: (sums) => sums.kind,
    records: (sums) => sums.records,
    quantity: (sums) => sums.quantity,
    refunded: (sums) => sums.refunded,
  });
  if (verification.differences.length > 0) {
    io.stdout.write("\n");
    printTable(
      io,
      ["different", "month", "attribution", "sum", "files", "database"],
      verification.differences.flatMap(({ kind, month, attribution, files, database }) =>
        (["records", "quantity", "refunded"] as const)
          .filter((sum) => files[sum] !== database[sum])
          .map((sum) => [
            kind,
            month,
            printable(attribution, 60),
            sum,
            String(files[sum]),
            String(database[sum]),
          ]),
      ),
    );
  }
  if (verification.counters.length > 0) {
    io.stdout.write("\n");
    printRows(io, verification.counters, {
      "total of the API": (total) => total.counter,
      period: (total) => total.period,
      total: (total) => total.counted,
      records: (total) => total.recorded,
    });
  }
};

const present = (verification: Verification) => ({
  lines: verification.lines,
  bad: verification.bad,
  repeated: verification.repeated,
  evidence: verification.evidence,
  ledger: {
    lines: verification.ledger.lines,
    different: verification.ledger.different,
    stated_cents: verification.ledger.statedCents,
    entries: verification.ledger.entries,
    imported_cents: verification.ledger.importedCents,
    balance_cents: verification.ledger.balanceCents,
    sum_cents: verification.ledger.sumCents,
  },
  files: verification.files,
  differences: verification.differences,
  has_more_differences: verification.hasMoreDifferences,
  counters: verification.counters,
});

const verify = async (
  context: CliContext,
  paths: readonly string[],
  { mode, json, ...options }: VerifyOptions,
): Promise<void> => {
  const { io, clock } = context;
  const history = await openHistory(context, paths, options);
  const { db, account } = await openAccount(context, options);
  const pace = await context.connections.pace();
  const bar = createProgressBar(io);
  const verification = await verifyImport(
    { db, clock, pace },
    { accountId: account.id, mode },
    history.lines(account, mode),
    (lines) => bar.update(history.shareRead(), `${counted(lines, "line")}${yieldingNote(pace)}`),
  ).finally(bar.clear);
  if (json) {
    printJson(io, present(verification));
  } else {
    printVerification(io, verification);
  }
  const { bad, repeated, evidence, ledger, differences, counters, hasMoreDifferences } =
    verification;
  if (repeated > 0) {
    say(
      io,
      `${counted(repeated, "line repeats", "lines repeat")} an id or a key of an earlier line and ${repeated === 1 ? "is" : "are"} counted once.`,
    );
  }
  if (bad > 0) {
    say(
      io,
      `${counted(bad, "line")} cannot be imported and ${bad === 1 ? "is" : "are"} not compared.`,
    );
  }
  const isLedgerDifferent = !isLedgerEqual(verification);
  if (isLedgerDifferent) {
    const lines = counted(ledger.lines, "line");
    say(
      io,
      `The ledger differs: ${counted(ledger.different, `of ${lines} is`, `of ${lines} are`)} missing or different, ${counted(ledger.entries, "imported entry is", "imported entries are")} here; the balance after them is ${formatCents(ledger.importedCents)}${ledger.statedCents === null ? "" : `, in the files ${formatCents(ledger.statedCents)}`}; the store's balance is ${formatCents(ledger.balanceCents)}, the sum of its entries ${formatCents(ledger.sumCents)}.`,
    );
  }
  if (evidence.different > 0) {
    const lines = counted(evidence.lines, "line");
    say(
      io,
      `${counted(evidence.different, `of ${lines} of evidence is`, `of ${lines} of evidence are`)} not shown here.`,
    );
  }
  if (differences.length + counters.length > 0) {
    throw new CommandError(
      EXIT.failed,
      `The files and the database differ in ${counted(differences.length, "sum", hasMoreDifferences ? "or more sums" : "sums")}, and ${counted(counters.length, "total of the API differs from its", "totals of the API differ from their")} records.`,
    );
  }
  if (bad + evidence.different > 0 || isLedgerDifferent) {
    throw new CommandError(
      EXIT.failed,
      "The sums of the records agree, but the database does not have everything in the files, as the lines above say.",
    );
  }
  say(io, `${counted(verification.lines, "line")}: the database has all of them.`);
};

export const defineVerifyImportCommand = (command: Command, context: CliContext): void => {
  withHistory(command)
    .addHelpText("after", VERIFY_HELP)
    .action((paths: readonly string[], options: VerifyOptions) => verify(context, paths, options));
};
