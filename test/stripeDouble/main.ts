import { Command, Option } from "commander";
import { startStripeDouble } from "./startStripeDouble.ts";

/** Runs the double as a program: `npm run stripe-double -- --port 12111`. See the README in this folder. */
const { port } = new Command("npm run stripe-double --")
  .description("Run a stateful double of Stripe's API. See test/stripeDouble/README.md.")
  .addOption(
    new Option("--port <port>", "port on this machine; 0 for a free one")
      .default(0)
      .argParser(Number),
  )
  .parse()
  .opts<{ readonly port: number }>();
const double = await startStripeDouble({ teardown: () => undefined }, { port });
const { customerId, subscriptionId } = double.control.addSubscriber({});
for (const [name, value] of Object.entries(double.env)) {
  console.log(`${name}=${value}`);
}
console.log(`A customer with a subscription: ${customerId} ${subscriptionId}`);
const stop = (): void => {
  void double.close();
};
process.once("SIGINT", stop);
process.once("SIGTERM", stop);
