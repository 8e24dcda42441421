/** `tenantry tenant:secrets:reencrypt`: see kernel/resealing.ts. */
import { FindingsStand } from '../kernel/doctor.ts'
import { type Resealed, reseal } from '../kernel/resealing.ts'
import { satellitesOn } from '../service/main.ts'
import type { OwnInput } from './commands.ts'
import { withTenancy } from './with-tenancy.ts'

export async function reencrypt(input: OwnInput): Promise<void> {
  const { terminal, signal, loadConfig } = input
  const columns = satellitesOn(await loadConfig()).flatMap(({ sealed = [] }) => sealed)
  await withTenancy(input, {}, async ({ kernel: { database, secrets } }) => {
    const done: Resealed[] = []
    for (const [index, column] of columns.entries()) {
      terminal.progress(`${index} of ${columns.length} columns: ${column.table}.${column.column}`)
      done.push(await reseal(database, secrets, column, signal))
    }
    terminal.table(done.map((one) => ({ ...one })))
    const failed = done.reduce((sum, { failed }) => sum + failed, 0)
    if (failed > 0) {
      throw FindingsStand(
        `${failed} cannot be opened: add the key that they were sealed under to TENANTRY_OLD_APP_KEYS.`,
      )
    }
    terminal.say(
      'Answers that are kept for a day and sealed backups still need the former key, as long as there are any.',
    )
  })
}
