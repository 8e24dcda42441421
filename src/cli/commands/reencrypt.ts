/**
 * `tenantry tenant:secrets:reencrypt`: see kernel/database/re-encrypt.ts. What a satellite keeps that is switched off is encrypted again as well: it
 * would be lost with the former key, and may be wanted again.
 */

import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { countEncrypted, existing, type ReencryptionResult, reencryptColumn } from '../../kernel/database/re-encrypt.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { catalogueOf } from '../../service/catalogue.ts'
import { satellites } from '../../service/main.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { withTenancy } from './with-tenancy.ts'

export async function reencrypt(input: OwnInput): Promise<void> {
  const { terminal, signal } = input
  await withTenancy(input, {}, async ({ kernel: { database, secrets } }) => {
    const columns = await existing(database, catalogueOf(satellites).encryptedColumns)
    const total = await countEncrypted(database, columns)
    const look = meter()
    let finished = 0
    const done: ReencryptionResult[] = []
    for (const column of columns) {
      const onValue = () => {
        const pace = paceText(look(++finished, total))
        terminal.progress(`${number(finished)} of ${number(total)}${pace}: ${column.table}.${column.column}`)
      }
      done.push(await reencryptColumn(database, secrets, column, signal, onValue))
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
