/**
 * Runs `tenantry tenant:secrets:reencrypt`: encrypts stored secrets again (kernel/database/re-encrypt.ts).
 * - Secrets of disabled satellites are included: they would be lost with the former key.
 */

import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { countEncrypted, existing, type ReencryptionResult, reencryptColumn } from '../../kernel/database/re-encrypt.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { catalogueOf } from '../../service/catalogue.ts'
import { satellites, satellitesOn } from '../../service/main.ts'
import type { Satellite } from '../../tenancy/satellite.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { withTenancy } from './with-tenancy.ts'

/** All built-in satellites, and those of the host. */
const withHosts = (on: readonly Satellite[]): readonly Satellite[] => [
  ...satellites,
  ...on.filter(({ name }) => !satellites.some((one) => one.name === name)),
]

export async function reencrypt(input: OwnInput): Promise<void> {
  const { terminal, signal } = input
  await withTenancy(input, {}, async ({ kernel: { database, secrets } }) => {
    const all = withHosts(satellitesOn(await input.loadConfig()))
    const columns = await existing(database, catalogueOf(all).encryptedColumns)
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
        `Secrets that cannot be decrypted: ${failed}. Add their key to TENANTRY_OLD_APP_KEYS, and run the command again.`,
      )
    }
    terminal.say('Encrypted backups, and responses stored for idempotency keys (one day), still need the former key.')
  })
}
