/** Deletes the rows of one tenant from several tables with a column `tenant_id`. */

/**
 * One statement, whose parameter `$1` is the value of `tenant_id`. Foreign keys are checked at its end, so the order of the tables does
 * not matter.
 *
 * @param tables qualified and quoted; at least one
 */
export function deletionFrom(tables: readonly string[]): string {
  const deletions = tables.map((table, index) => `t${index} as (delete from ${table} where tenant_id = $1)`)
  return `with ${deletions.join(', ')} select`
}
