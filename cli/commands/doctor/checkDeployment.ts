import { readDeployment } from "../../../db/billing/deployment.ts";
import { decideProcessor, describeAccount } from "../../../domain/billing/deployment.ts";
import type { LiveProcessor } from "../../../domain/billing/deployment.ts";
import type { Context } from "../../context.ts";
import { check, ok, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const readConfigured = async ({ connections }: Context): Promise<LiveProcessor> => {
  const stripe = connections.stripe();
  return stripe ? { name: "stripe", account: await stripe.readAccount() } : { name: "ledger" };
};

/** Checks that this process would bill with the deployment's processor and Stripe account. */
export const checkDeployment = (context: Context): Promise<Finding> =>
  check("billing processor", async () => {
    const { processor } = await readDeployment(await context.connections.database());
    if (processor === null) {
      return ok("not recorded yet; the first worker records its own");
    }
    const decision = decideProcessor(processor, await readConfigured(context), {
      ledgerHasLiveUsage: true,
    });
    if (decision.kind === "mismatch") {
      return wrong(decision.problem);
    }
    return ok(
      processor.name === "stripe" ? describeAccount(processor.account) : "the built-in ledger",
    );
  });
