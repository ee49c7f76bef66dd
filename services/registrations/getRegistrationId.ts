import type { CommonQueryMethods } from "slonik";
import { listRegistrationIds } from "../../db/registrations/registrations.ts";
import { requireOneRecord } from "../../domain/recordIds.ts";

/**
 * Returns the id of the registration that an operator names by its id or by the id that it was imported with.
 * @throws DomainError record_not_found, or request_invalid if several accounts have imported such an id
 */
export const getRegistrationId = async (db: CommonQueryMethods, given: string): Promise<string> =>
  requireOneRecord("registration", given, await listRegistrationIds(db, given));
