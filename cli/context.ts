import type { Clock } from "../runtime/clock.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import type { LiveProcessor } from "../modules/billing/deployment.rules.ts";
import type { Connections } from "./connections.ts";
import type { Io } from "./io.ts";

export type CliContext = {
  readonly io: Io;
  readonly connections: Connections;
  readonly clock: Clock;
};

export const openBilling = async ({ connections, clock }: CliContext): Promise<BillingContext> => ({
  db: await connections.database(),
  clock,
  billing: await connections.billing(),
});

/** Returns who bills live usage by the settings of this program. */
export const readConfigured = async ({ connections }: CliContext): Promise<LiveProcessor> => {
  const stripe = await connections.stripe();
  return stripe ? { name: "stripe", account: await stripe.readAccount() } : { name: "ledger" };
};
