import { inspectStripe } from "../../../providers/billing/stripe/inspectStripe.ts";
import type { Context } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

/** Whether Stripe takes the key and has our meters as we need them. It changes nothing there. */
export const checkStripe = ({ connections }: Context): Promise<Finding> =>
  check("Stripe", async () => {
    const { STRIPE_SECRET_KEY, STRIPE_API_BASE } = connections.config();
    if (STRIPE_SECRET_KEY === undefined) {
      return skipped("STRIPE_SECRET_KEY is not set here: live usage goes to the built-in ledger");
    }
    const faults = await inspectStripe({ secretKey: STRIPE_SECRET_KEY, apiBase: STRIPE_API_BASE });
    return faults.length === 0
      ? ok("the key is accepted, both meters fit")
      : wrong(faults.join(" "));
  });
