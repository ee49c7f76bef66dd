import { parseArgs } from "node:util";
import { startStripeDouble } from "./startStripeDouble.ts";

/** Runs the double as a program: `npm run stripe-double -- --port 12111`. See the README in this folder. */
const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });
const double = await startStripeDouble({ port: Number(values.port) });
const { customerId, subscriptionId } = double.control.addSubscriber({});
console.log(`STRIPE_API_BASE=${double.url}`);
console.log(`STRIPE_SECRET_KEY=${double.secretKey}`);
console.log(`A customer with a subscription: ${customerId} ${subscriptionId}`);
const stop = (): void => {
  void double.close();
};
process.once("SIGINT", stop);
process.once("SIGTERM", stop);
