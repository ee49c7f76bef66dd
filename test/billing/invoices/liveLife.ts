import { compareInvoices } from "../../../modules/billing/invoices/compareInvoices.ts";
import type { Random } from "../../support/random.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { endOfPeriod } from "./lifeTruth.ts";
import type { PauseBehavior, SubscriptionLife } from "./lifeTruth.ts";

const DAY = 86_400;
/** Usage that waits longer could become too old for Stripe. */
const LONGEST_HELD = 33 * DAY;

const BEHAVIORS: readonly PauseBehavior[] = ["void", "mark_uncollectible", "keep_as_draft"];
const ENDS = ["now_with_invoice", "now_without_invoice", "at_period_end"] as const;

/** Compares the invoices of the setup's organization, as the nightly comparison does. */
export const compare = async ({ deps, stream, pass }: BillingSetup): Promise<void> => {
  pass(1);
  await compareInvoices(deps, {
    accountId: stream.accountId,
    readBefore: deps.clock.now(),
    signal: new AbortController().signal,
    intervalMs: 0,
    onFailure: (_id, error) => {
      throw error;
    },
  });
};

/** Lets an organization live through random registrations, refunds and changes of its subscriptions. The log is for failures. */
export const liveLife = async (setup: BillingSetup, random: Random, steps: number) => {
  const { double, register, refund, drain, pass, customerId, subscriptionId } = setup;
  const { control } = double;
  const begin = (id: string): SubscriptionLife => ({
    id,
    start: control.now(),
    trial: null,
    end: null,
    invoicedAtEnd: false,
    pauses: [],
  });
  const lives = [begin(subscriptionId)];
  const log: string[] = [];
  const registered: string[] = [];
  let heldSince: number | null = null;

  const deliver = async (): Promise<void> => {
    await drain();
    heldSince = null;
  };
  const advance = async (seconds: number): Promise<void> => {
    if (heldSince !== null && control.now() + seconds - heldSince > LONGEST_HELD) {
      await deliver();
    }
    pass(seconds);
  };
  /** A subscription that still runs, as far as it is known. */
  const running = (): SubscriptionLife | null => {
    const candidates = lives.filter(({ end }) => end === null || end > control.now());
    return candidates.length === 0 ? null : random.pick(candidates);
  };

  const actions: Readonly<Record<string, () => Promise<void> | void>> = {
    register: async () => {
      registered.push(await register(1 + random.below(9)));
      heldSince ??= control.now();
      if (random.below(2) > 0) {
        await deliver();
      }
    },
    refund: async () => {
      const id = registered.at(-1);
      // Outside the cycle, or refunded: a rejection changes nothing.
      await (id === undefined ? null : refund(id, 1).catch(() => null));
      heldSince ??= control.now();
    },
    deliver,
    hours: () => advance(3600 * (1 + random.below(20))),
    weeks: () => advance(DAY * (3 + random.below(12))),
    month: () => advance(DAY * 31 + random.below(5000)),
    pause: () => {
      const life = running();
      const paused = life?.pauses.find(({ until }) => until === null);
      if (paused) {
        paused.until = control.now();
        control.pauseCollection({ subscriptionId: life?.id ?? "" });
      } else if (life) {
        const behavior = random.pick(BEHAVIORS);
        life.pauses.push({ from: control.now(), until: null, behavior });
        control.pauseCollection({ subscriptionId: life.id, behavior });
      }
    },
    trial: () => {
      const life = running();
      if (life && life.trial === null && life.end === null && life.start < control.now()) {
        const trial = { start: control.now(), end: control.now() + DAY * (1 + random.below(20)) };
        life.trial = trial;
        control.beginTrial({ subscriptionId: life.id, trialEnd: trial.end });
      }
    },
    cancel: () => {
      const life = running();
      if (life === null || life.end !== null) {
        return;
      }
      const when = random.pick(ENDS);
      log.push(when);
      life.end = when === "at_period_end" ? endOfPeriod(life, control.now()) : control.now();
      life.invoicedAtEnd = when === "now_with_invoice";
      control.cancel({ subscriptionId: life.id, when });
    },
    subscribe: () => {
      if (lives.length < 3) {
        lives.push(begin(control.addSubscriber({ customerId }).subscriptionId));
      }
    },
    compare: () => compare(setup),
  };
  const more = "register register register register hours weeks pause compare".split(" ");
  const weighted = [...Object.keys(actions), ...more];
  for (let step = 0; step < steps; step += 1) {
    // No two changes happen in one second.
    await advance(1);
    const name = random.pick(weighted);
    log.push(`${control.now()} ${name}`);
    await actions[name]?.();
  }
  await deliver();
  return { lives, log };
};
