import { readDeployment } from "../../../db/billing/deployment.ts";
import { deploymentNameOf, describeHold, findHold } from "../../../domain/billing/deployment.ts";
import type { CliContext } from "../../context.ts";
import { printJson, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";

export const showDeployment = async (
  { io, connections }: CliContext,
  { json }: JsonOption,
): Promise<void> => {
  const { id, createdAt, processor, ...recorded } = await readDeployment(
    await connections.database(),
  );
  const hold = findHold(recorded);
  const account = processor?.name === "stripe" ? processor.account : null;
  const fields = {
    deployment_id: id,
    temporal_name: deploymentNameOf({ id }),
    created_at: createdAt,
    separated_at: recorded.separatedAt,
    processor: processor?.name ?? null,
    stripe_account_id: account?.id ?? null,
    stripe_livemode: account?.isLive ?? null,
    processor_recorded_at: recorded.processorRecordedAt,
    processor_recorded_by: recorded.processorRecordedBy,
    system_identifier: recorded.systemIdentifier,
    timeline: recorded.timeline,
    server_changed: recorded.isServerChanged,
    usage_held: hold,
    released_at: recorded.releasedAt,
    released_by: recorded.releasedBy,
    released_hold: recorded.releasedHold,
  };
  if (json) {
    printJson(io, fields);
    return;
  }
  printRecord(io, {
    deployment: id,
    "name in Temporal": deploymentNameOf({ id }),
    created: createdAt,
    "separated from another": recorded.separatedAt,
    processor: processor?.name ?? "not recorded; no worker has started yet",
    "Stripe account": account && `${account.id} (${account.isLive ? "live" : "test"} mode)`,
    "processor recorded": recorded.processorRecordedAt,
    "recorded by": recorded.processorRecordedBy,
    "database system": recorded.systemIdentifier,
    timeline: recorded.timeline,
    "usage held": hold && describeHold(hold),
    "last release": recorded.releasedAt,
    "released by": recorded.releasedBy,
  });
};
