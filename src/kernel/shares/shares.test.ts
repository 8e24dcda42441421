import { beforeAll, expect, inject, test } from 'vitest'
import { testTenancy } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import type { Kernel } from '../kernel.ts'
import type { AccessCheck } from './contributions.ts'
import { failedOf, Shares } from './shares.ts'

let kernel: Kernel
beforeAll(async () => {
  const opened = await testTenancy(inject('postgresUrl'))
  kernel = opened.tenancy.kernel
  return opened.end
})

const sharesOf = (accessChecks: readonly AccessCheck<Kernel>[]): Shares => {
  const shares = new Shares(createLogger({ level: 'silent' }))
  shares.register({ accessChecks }, kernel)
  return shares
}

const read = async (shares: Shares) => {
  const results = await shares.read<AccessCheck>(shares.accessChecks, () => ({ tenantId: 'acme' }))
  return { passed: results.map(({ result }) => result?.message), failed: failedOf(results) }
}

const named = (name: string, read: AccessCheck<Kernel>['read'], timeoutMs?: number): AccessCheck<Kernel> => ({
  name,
  read,
  ...(timeoutMs === undefined ? {} : { timeoutMs }),
})
const passing = (message: string) => ({ passed: true, message })

test('results have the order of the shares, and each share receives its service and the request', async () => {
  const shares = sharesOf([
    named('slow', async ({ database }) => {
      await database.sql('select pg_sleep(0.05)')
      return passing('slow')
    }),
    named('fast', (_, { tenantId }) => passing(tenantId)),
  ])
  expect(await read(shares)).toEqual({ passed: ['slow', 'acme'], failed: [] })
})

test('a share that throws is named, and the results of the others stay', async () => {
  const shares = sharesOf([
    named('one', () => passing('one')),
    named('broken', () => {
      throw new Error('broken')
    }),
    named('three', () => passing('three')),
  ])
  expect(await read(shares)).toEqual({ passed: ['one', undefined, 'three'], failed: ['broken'] })
})

test('the statement of a share that exceeds its time is ended, and a later one is rejected', async () => {
  const late = Promise.withResolvers<unknown>()
  const shares = sharesOf([
    named(
      'late',
      async ({ database }) => {
        const first = await database.sql(`select pg_sleep(600), 'of a late share'`).catch((error) => error)
        late.resolve([first, await database.sql('select 1').catch((error) => error)])
        return passing('late')
      },
      100,
    ),
    named('fast', () => passing('fast')),
  ])
  expect(await read(shares)).toEqual({ passed: [undefined, 'fast'], failed: ['late'] })
  expect(await late.promise).toEqual([expect.any(Error), expect.any(Error)])
})

test('a share reads outside of the transaction of its caller', async () => {
  const shares = sharesOf([named('one', ({ database }) => passing(String(database.inTransaction)))])
  expect(await kernel.database.transaction(() => read(shares))).toEqual({ passed: ['false'], failed: [] })
})
