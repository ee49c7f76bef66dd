import { timeOf } from "../../../domain/billing/usage.ts";
import { acknowledgeDrift } from "../../../services/billing/reconciliation/acknowledgeDrift.ts";
import type { CliContext } from "../../context.ts";
import { describeError, EXIT, exitCodeOf } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { openChange, operatorName } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { printJson, printTable } from "../../output/print.ts";
import { requireSuccess } from "./repair/reportResults.ts";

const HEADINGS = ["difference", "customer", "mode", "meter", "minute", "units"];

/** Acknowledges each difference separately: an unknown one does not stop the others. */
export const acknowledge = async (
  context: CliContext,
  ids: readonly bigint[],
  { reason, as, json }: ReasonedOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, { as, reason });
  const operator = operatorName(as);
  const acknowledged: object[] = [];
  const rows: (readonly (string | number | Date)[])[] = [];
  const outcomes: { readonly exitCode: number }[] = [];
  for (const id of ids) {
    try {
      const { customer, mode, kind, minute, units, processor } = await acknowledgeDrift(deps, id, {
        reason,
        operator,
      });
      rows.push([String(id), customer, mode, kind, timeOf(minute), units]);
      acknowledged.push({
        difference_id: Number(id),
        processor,
        customer,
        mode,
        meter: kind,
        minute: timeOf(minute),
        units,
        reason,
        acknowledged_by: operator,
      });
      outcomes.push({ exitCode: EXIT.ok });
    } catch (error) {
      say(io, `Difference ${id}: ${describeError(error)}`);
      outcomes.push({ exitCode: exitCodeOf(error) });
    }
  }
  if (json) {
    printJson(io, acknowledged);
  } else if (rows.length > 0) {
    printTable(io, HEADINGS, rows);
  }
  if (rows.length > 0) {
    say(
      io,
      `Acknowledged by ${operator}. A difference is reported again only if it changes. To update the metrics now, run: impact usage reconcile`,
    );
  }
  requireSuccess(outcomes, "acknowledged");
};
