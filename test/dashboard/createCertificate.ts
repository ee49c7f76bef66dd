import type { DatabasePool } from "slonik";
import { systemClock } from "../../runtime/clock.ts";
import { getCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";

/** Registers a tree of a new organization and returns the token of its certificate. */
export const createCertificate = async (db: DatabasePool): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const { registration } = await writer.register(registrationOf(accountId));
  const owner = { accountId, mode: "live" } as const;
  return getCertificateToken({ db, clock: systemClock }, owner, registration.id, null);
};
