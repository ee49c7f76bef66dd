import { describeHold, HOLD_ADVICE } from "../../../domain/billing/deployment.ts";
import { counted } from "../../../domain/counted.ts";
import { separateDeployment } from "../../../services/billing/separateDeployment.ts";
import { takeOverDeployment } from "../../../services/billing/takeOverDeployment.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange, operatorName } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson } from "../../output/print.ts";

export type SeparateOptions = ChangeOptions & { readonly isCopy?: true };

/** Declares that a restored, promoted or copied database replaces the old one. */
export const takeOver = async (
  context: CliContext,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const { name, hold, hadChanged } = await takeOverDeployment(await openChange(context, operator));
  if (json) {
    printJson(io, { temporal_name: name, taken_over: hadChanged, usage_held: hold });
    return;
  }
  say(
    io,
    hadChanged
      ? `Deployment ${name} continues with this database. Its workers poll Temporal within five seconds.`
      : `Nothing was changed: deployment ${name} is on the server that was recorded.`,
  );
  if (hold) {
    const sentence = describeHold(hold);
    say(io, `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}. ${HOLD_ADVICE}`);
  }
};

/** Makes a copied database a deployment of its own. */
export const separate = async (
  context: CliContext,
  { json, isCopy, ...operator }: SeparateOptions,
): Promise<void> => {
  const { io } = context;
  const { name, originalName, hold, disabledEndpoints } = await separateDeployment(
    await openChange(context, operator),
    { isKnownCopy: isCopy === true, by: operatorName(operator.as) },
  );
  if (json) {
    printJson(io, {
      temporal_name: name,
      original_temporal_name: originalName,
      usage_held: hold,
      disabled_webhook_endpoints: disabledEndpoints,
    });
    return;
  }
  say(
    io,
    `This database is now deployment ${name}; ${originalName} continues without it. Start this deployment's programs with their own settings, without the original's Stripe key.`,
  );
  say(
    io,
    "Its usage is held. The original sends what was pending in live mode. To process usage here, run `impact usage release`.",
  );
  say(
    io,
    `${counted(disabledEndpoints, "webhook endpoint was", "webhook endpoints were")} disabled, so that the original's clients receive nothing from here. To use one, change its URL with \`impact webhook update\`, and run \`impact webhook enable\`.`,
  );
};
