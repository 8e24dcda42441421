/** Failing backups, before and after a scheduled backup is missed. */
import { rename, rm, writeFile } from 'node:fs/promises'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import { type FakeClock, fakeClock } from '../../../testing/base/clock.ts'
import { HOURLY_BACKUPS, only } from '../recovery.fixture.ts'

const HOUR_MS = 3_600_000

let environment: TestEnvironment
let clock: FakeClock
beforeEach(async () => {
  clock = fakeClock()
  environment = await openTestEnvironment(inject('postgresUrl'), {
    role: 'api',
    clock,
    plans: HOURLY_BACKUPS,
  })
})
afterEach(() => environment.end())

const install = async (id: string, metadata = {}) => {
  await environment.tenancy.tenants.create({ id, name: id, metadata })
  await environment.tenancy.tenants.installation.install(id, only)
}
const findings = async () =>
  (await environment.tenancy.doctor.examine()).checks
    .filter(({ code }) => ['backups.stale', 'backups.failing'].includes(code))
    .map(({ severity, code, message }) => `${severity} ${code}: ${message}`)

async function backUp(id: string) {
  const { id: backupId } = await environment.transfers.backups.create(id)
  await environment.transfers.work(backupId, only).catch(() => undefined) // the tests assert the recorded failure, not the error
  return environment.transfers.backups.get(id, backupId)
}

/** Replaces the backup storage by a file during `work`. */
async function whileBroken(work: () => Promise<void>): Promise<void> {
  const aside = `${environment.archives}.aside`
  await rename(environment.archives, aside)
  await writeFile(environment.archives, 'a file')
  await work()
  await rm(environment.archives)
  await rename(aside, environment.archives)
}

test('the doctor reports failing backups of scheduled tenants immediately, until one succeeds', async () => {
  await install('acme', { plan: 'pro' })
  await install('free')
  const first = await backUp('acme')
  expect(first.state).toBe('completed')
  await whileBroken(async () => {
    clock.advance(HOUR_MS)
    expect(await backUp('acme')).toMatchObject({ state: 'failed' })
    expect(await backUp('free')).toMatchObject({ state: 'failed' }) // the caller of a manual backup has received its error
  })
  expect(await findings()).toEqual([
    expect.stringMatching(
      /^warn backups\.failing: the backups of tenant "acme" fail: the last attempt has failed \(E_\w+\); it was last on 2026-01-01T00:00:00\.000Z$/,
    ),
  ])
  await whileBroken(async () => {
    clock.advance(1.5 * HOUR_MS)
    await backUp('acme')
  })
  expect(await findings()).toEqual([
    expect.stringMatching(
      /^warn backups\.stale: tenant "acme" is to be backed up every 1 h, and was last on 2026-01-01T00:00:00\.000Z: the last 2 attempts have failed \(E_\w+\)$/,
    ),
  ])
  expect((await backUp('acme')).state).toBe('completed')
  expect(await findings()).toEqual([])
})

test('the doctor reports failing backups individually up to a limit', async () => {
  const ids = Array.from({ length: 60 }, (_, n) => `many-${String(n).padStart(2, '0')}`)
  for (const id of ids) {
    await environment.tenancy.tenants.create({ id, name: id, metadata: { plan: 'pro' } })
  }
  const { database } = environment.tenancy.kernel
  await database.sql(
    `update multitenancy.tenants set status = 'active', activated_at = created_at where id like 'many-%'`,
  )
  clock.advance(2 * HOUR_MS + 1)
  const lines = await findings()
  expect(lines).toHaveLength(51)
  expect(lines.at(-1)).toMatch(/^warn backups\.stale: and 10 more of this kind$/)
})
