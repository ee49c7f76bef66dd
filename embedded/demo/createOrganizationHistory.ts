import type { DatabasePool } from "slonik";
import type { Billing } from "../../modules/billing/createBilling.ts";
import { donate, readDonated } from "../../modules/charities/donate.ts";
import { refundDonations } from "../../modules/charities/refundDonations.ts";
import { resultOfOne } from "../../modules/records/batches.rules.ts";
import { createRetryGuard } from "../../modules/registrations/createRetryGuard.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { createDemoCharities } from "./historyContext.ts";
import type { CertifiedRecord } from "./demoData.ts";
import type { HistoryClock } from "./historyContext.ts";
import type { OrganizationStep } from "./planDemo.ts";

type StepOf<Kind extends OrganizationStep["kind"]> = Extract<
  OrganizationStep,
  { readonly kind: Kind }
>;

const registrationOf = (
  accountId: string,
  { mode, unit, count, orderNumber, attribution, campaign, country }: StepOf<"register">,
) => ({
  accountId,
  mode,
  kind: unit,
  count,
  fractionalCount: 0,
  idempotencyKey: `order-${orderNumber}`,
  attribution,
  metadata: { campaign, country, order: `NS-${orderNumber}` },
  isLimited: false,
});

const donationOf = ({ ein, amountCents, orderNumber, attribution }: StepOf<"donate">) => ({
  charity: { ein, nonprofitId: null },
  amountCents,
  charityName: null,
  idempotencyKey: `donation-${orderNumber}`,
  attribution,
  metadata: { order: `NS-${orderNumber}` },
});

const donationRefundOf = (id: string) => ({
  id,
  reason: "given twice",
  idempotencyKey: null,
  metadata: {},
});

/** Writes the planned history of an organization. */
export const createOrganizationHistory = (
  {
    db,
    billing,
    clock,
  }: { readonly db: DatabasePool; readonly billing: Billing; readonly clock: HistoryClock },
  accountId: string,
) => {
  const context = {
    db,
    billing,
    clock,
    guard: createRetryGuard(),
    ...createDemoCharities(db, clock),
  };
  const live = { accountId, mode: "live" } as const;
  const writer = createRegistrationWriter(context);
  const ids = new Map<number, string>();
  const records: CertifiedRecord[] = [];

  const idOf = (orderNumber: number): string => {
    const id = ids.get(orderNumber);
    if (id === undefined) {
      throw new Error(`The plan names order ${orderNumber} before it is recorded.`);
    }
    return id;
  };

  const certify = (label: string | null, id: string): void => {
    if (label !== null) {
      records.push({ label, id });
    }
  };

  const run = async (step: OrganizationStep): Promise<void> => {
    switch (step.kind) {
      case "register": {
        const { registration } = await writer.register(registrationOf(accountId, step));
        ids.set(step.orderNumber, registration.id);
        certify(step.certificate, registration.id);
        return;
      }
      case "refund":
        await refundRegistration(
          context,
          { ...live, kind: "tree" },
          {
            id: idOf(step.orderNumber),
            count: step.count,
            reason: "order returned",
            idempotencyKey: null,
          },
        );
        return;
      case "donate": {
        const donated = resultOfOne(await donate(context, live, [donationOf(step)], true));
        const { donation } = resultOfOne(await readDonated(context, live, [donated]));
        ids.set(step.orderNumber, donation.id);
        certify(step.certificate, donation.id);
        return;
      }
      case "refund_donation":
        await refundDonations(context, live, [donationRefundOf(idOf(step.orderNumber))], true);
    }
  };

  return {
    write: async (steps: readonly OrganizationStep[]): Promise<void> => {
      for (const step of steps) {
        clock.moveTo(step.at);
        await run(step);
      }
    },
    records,
  };
};
