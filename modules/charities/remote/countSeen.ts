import type { CharityQuery } from "../provider.ts";

/** Returns how many charities a search has up to the end of a page; 0 if the page is empty, so perhaps beyond the last. */
export const countSeen = ({ page, pageSize }: CharityQuery, listedCount: number): number =>
  listedCount === 0 ? 0 : (page - 1) * pageSize + listedCount;
