/** Deletes the rows of one tenant from several tables. */

/**
 * One statement, whose parameter `$1` is the tenant. Foreign keys are checked at its end, so the order of the tables does
 * not matter.
 *
 * @param tables qualified and quoted; at least one
 * @param own condition of a row of the tenant
 */
export function deletionFrom(tables: readonly string[], own = 'tenant_id = $1'): string {
  const deletions = tables.map((table, index) => `t${index} as (delete from ${table} where ${own})`)
  return `with ${deletions.join(', ')} select`
}
