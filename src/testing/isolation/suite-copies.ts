/** Group of `isolationSuite`: copies of storage. A driver without the capability `copies` must reject them. */
import { directHandle } from '../base/direct-handle.ts'
import { locationIn, provisionedIn } from '../base/subject.ts'
import type { Vitest } from '../base/vitest.ts'
import type { Proof } from './proof.ts'

const OWNERS = 'select owner from items'

export function copiesOfTenants({ describe, expect, test }: Vitest, proof: () => Proof): void {
  describe('a copy', () => {
    test('a copy contains every row, or is rejected by a driver without the capability', async () => {
      const { subject, driver } = proof()
      const options = { signal: new AbortController().signal }
      const [source, target] = [locationIn(subject, driver, 'copied'), locationIn(subject, driver, 'copy')]
      const { db } = await provisionedIn(subject, driver, 'copied')
      await db.insertInto('items').values({ id: 1, owner: 'of copied' }).execute()
      const copying = driver.export(source, (copy) => driver.import(target, copy, options), options)
      if (driver.capabilities.copies) {
        const { migrations, rows } = await copying
        expect([migrations, rows.get('items')]).toEqual([await driver.applied(source), 1])
        expect((await directHandle(driver, target).pool.query(OWNERS)).rows).toEqual([{ owner: 'of copied' }])
      } else {
        await expect(copying).rejects.toMatchObject({ code: 'E_NOT_SUPPORTED' })
      }
      await driver.drop(target)
      await driver.drop(source)
    })
  })
}
