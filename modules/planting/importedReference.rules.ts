/** The partner of planting orders that were imported. No adapter serves it: such orders are never polled. */
export const IMPORTED_PARTNER = "imported";

/** Returns the reference of a record in another system. Systems number their records alike, so its name is a part of it. */
export const importedReference = (source: string, id: number): string => `${source}/${id}`;

/** Returns the id that evidence shows for a reference of an imported order: the other system's; null if it has none. */
export const findImportedReferenceId = (partner: string, reference: string): number | null => {
  const digits = /\/(\d{1,16})$/u.exec(reference)?.[1];
  const id = Number(digits ?? Number.NaN);
  return partner === IMPORTED_PARTNER && Number.isSafeInteger(id) ? id : null;
};
