import { listMeterEvents } from "../../../db/billing/meterEventReports.ts";
import type { UnsealedUsage } from "../../../db/billing/usageFacts.ts";
import { listUnsealedUsage } from "../../../db/billing/usageFacts.ts";
import type { UsageState } from "../../../domain/billing/meterEvents.ts";
import { listUnnamedRejections } from "../../../db/billing/processorEvents/usageRejections.ts";
import { timeOf } from "../../../domain/billing/usage.ts";
import { defaultSpan } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import type { CliContext } from "../../context.ts";
import type { Cell } from "../../output/formatTable.ts";
import { printJson, printTable } from "../../output/print.ts";
import { sayIfMore } from "../../output/sayIfMore.ts";
import { readAccountFilter } from "../../accountOptions.ts";
import { sayIfHeld } from "./sayIfHeld.ts";
import { sayUnnamedRejections } from "./unnamedRejections.ts";
import { METER_EVENT_HEADINGS, meterEventRow, presentMeterEvent } from "./presentMeterEvent.ts";

const UNNAMED_SHOWN = 5;

export type ListOptions = {
  readonly state?: UsageState;
  readonly org?: string;
  readonly limit: number;
  readonly json?: true;
};

const presentUnsealed = (unsealed: UnsealedUsage) => ({
  meter_event_id: null,
  state: "unsealed",
  account_id: unsealed.accountId,
  account_name: unsealed.accountName,
  mode: unsealed.mode,
  meter: unsealed.kind,
  at: timeOf(unsealed.oldestSecond),
  quantity: unsealed.quantity,
  facts: unsealed.facts,
});

const unsealedCells = (unsealed: UnsealedUsage): readonly Cell[] => [
  null,
  "unsealed",
  unsealed.accountName,
  unsealed.mode,
  unsealed.kind,
  timeOf(unsealed.oldestSecond),
  unsealed.quantity,
  0,
  null,
];

export const listUsage = async (
  { io, connections, clock }: CliContext,
  { state, org, limit, json }: ListOptions,
): Promise<void> => {
  const db = await connections.database();
  const accountId = await readAccountFilter(db, org);
  const unsealed =
    state === undefined || state === "pending"
      ? await listUnsealedUsage(db, { accountId, limit: limit + 1 })
      : [];
  const events = await listMeterEvents(db, { state: state ?? null, accountId, limit: limit + 1 });
  if (json) {
    printJson(
      io,
      [...unsealed.map(presentUnsealed), ...events.map(presentMeterEvent)].slice(0, limit),
    );
  } else {
    printTable(
      io,
      METER_EVENT_HEADINGS,
      [...unsealed.map(unsealedCells), ...events.map(meterEventRow)].slice(0, limit),
    );
  }
  await sayIfHeld(io, db);
  sayIfMore(io, unsealed.length + events.length, limit);
  if (state === undefined || state === "failed") {
    const { start } = defaultSpan(clock.now());
    sayUnnamedRejections(io, await listUnnamedRejections(db, timeOf(start), UNNAMED_SHOWN));
  }
};
