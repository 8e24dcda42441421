/** The screen Migrations in a browser: versions, a run with its progress and failures, cancellation; circuits on System. */
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { testTenancy } from '../../src/testing/base/tenancy.ts'
import {
  axeViolations,
  type OpenedConsole,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
  serveConsole,
} from './console.fixture.ts'
import { describeScreens } from './screens.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const IDS = ['acme', 'globex', 'hooli', 'initech']
const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (body text)', down: 'drop table notes' }
/** The migration of acme waits for a lock of the test; that of globex fails while the table has a row. */
const TAGS = {
  name: '0002_tags',
  checksum: '2',
  up: `create table tags ();
       do $$ begin
         if current_schema() = 't1_acme' then perform pg_advisory_xact_lock_shared(4711); end if;
         if current_schema() = 't1_globex' and exists (select from public.broken) then perform 1 / 0; end if;
       end $$`,
  down: 'drop table tags',
}

let opened: OpenedConsole
let failedRun = ''
const sql = async (text: string) => (await opened.tenancy.kernel.database.sql(text)).rows

beforeAll(async () => {
  const made = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
  for (const id of IDS) {
    await made.tenancy.tenants.create({ id, name: id })
    await made.tenancy.tenants.installation.install(id, { isLast: true })
  }
  const tenancy = await made.open({ role: 'all', migrations: [NOTES, TAGS] })
  opened = await serveConsole({ tenancy, end: made.end })
  await sql('create table public.broken ()')
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

/** Holds the migration of acme while `work` runs. */
const whileLocked = (work: () => Promise<void>) =>
  opened.tenancy.kernel.database.session(async (client) => {
    await client.query('select pg_advisory_lock(4711)')
    try {
      await work()
    } finally {
      await client.query('select pg_advisory_unlock(4711)')
    }
  })

const newest = async () => (await opened.call('GET', '/migration-runs')).data[0]

// Each test continues with the runs of the test before.
describe('the screen Migrations', { shuffle: false }, () => {
  test('a run starts after the number of tenants is typed, appears for other operators, and is cancelled', {
    timeout: 2 * LIMIT_MS,
  }, async () => {
    await using other = await opened.open('/migrations')
    await other.page.getByText('No runs yet').waitFor()
    await using console = await opened.open('/migrations')
    const { page } = console
    const versions = page.getByRole('table').filter({ hasText: 'Last migration' })
    await versions.getByRole('row', { name: /^0001_notes 4 .*0002_tags/ }).waitFor()
    await whileLocked(async () => {
      await page.getByRole('button', { name: 'Run migrations…' }).click()
      const dialog = page.getByRole('alertdialog', { name: 'Run migrations of 4 tenants?' })
      await dialog.getByText('Pending: 0002_tags.').waitFor()
      expect(await axeViolations(page)).toEqual([])
      await dialog.getByRole('textbox').fill('3')
      await dialog.getByRole('textbox').press('Enter')
      expect((await opened.call('GET', '/migration-runs')).data).toEqual([])
      await dialog.getByRole('textbox').fill('4')
      await dialog.getByRole('textbox').press('Enter')
      const panel = page.getByRole('complementary', { name: 'Run' })
      await panel.getByText('3 of 4 storages').waitFor()
      expect(await axeViolations(page)).toEqual([])
      await other.page.getByRole('row', { name: /Run running/ }).waitFor()
      expect(await newest()).toMatchObject({ state: 'running', startedBy: 'admin', isBackground: true, total: 4 })

      await panel.getByRole('button', { name: 'Cancel run…' }).click()
      await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel run' }).click()
      await panel.getByText('ends after the storages in progress').waitFor()
      expect(await newest()).toMatchObject({ state: 'running', isCancelled: true })
    })
    const runs = page.getByRole('table', { name: 'Runs' })
    await runs.getByRole('row', { name: /Run cancelled 4 of 4 storages/ }).waitFor()
    await page.getByText('All tenants have the migrations of this release.').waitFor()
    await other.page.getByRole('row', { name: /Run cancelled/ }).waitFor()
    expect(console.complaints).toEqual([])
    expect(other.complaints).toEqual([])
  })

  test('a run with a failure shows the tenant and the error, and its version has a failed tenant', {
    timeout: 2 * LIMIT_MS,
  }, async () => {
    await opened.tenancy.tenants.migrations.rollback({ steps: 1 })
    await sql('insert into public.broken default values')
    await using console = await opened.open('/migrations')
    const { page } = console
    await page.getByRole('button', { name: 'Run migrations…' }).click()
    await page.getByRole('alertdialog').getByRole('textbox').fill('4')
    await page.keyboard.press('Enter')
    const panel = page.getByRole('complementary', { name: 'Run' })
    const failures = panel.getByRole('region', { name: 'Failures' })
    await failures.getByRole('link', { name: 'globex' }).waitFor()
    await failures.getByText('E_MIGRATION_FAILED').waitFor()
    await failures.getByText('0002_tags (up) failed').waitFor()
    await page.getByRole('row', { name: /^0001_notes 1 .*0002_tags .*1/ }).waitFor()
    await page.getByRole('row', { name: /^0002_tags 3/ }).waitFor()
    await page
      .getByRole('table', { name: 'Runs' })
      .getByRole('row', { name: /Rollback of 1 migration completed/ })
      .waitFor()
    expect(console.complaints).toEqual([])
    const run = await newest()
    expect(run).toMatchObject({ state: 'failed', done: 3, failed: 1 })
    failedRun = run.id
  })

  test('a token that only reads sees runs without actions', { timeout: LIMIT_MS }, async () => {
    await using console = await opened.open('/migrations', { token: READER })
    const { page } = console
    await page
      .getByRole('table', { name: 'Runs' })
      .getByRole('row', { name: /Run failed/ })
      .waitFor()
    await page.getByRole('row', { name: /^0001_notes 1/ }).waitFor()
    expect(await page.getByRole('button', { name: 'Run migrations…' }).count()).toBe(0)
    expect(console.complaints).toEqual([])
  })

  describeScreens(
    () => opened,
    [
      ['/migrations', '0002_tags'],
      [() => `/migrations?open=${failedRun}`, 'E_MIGRATION_FAILED'],
      ['/system', 'Next probe'],
    ],
  )
})

test('System shows the circuits that any process has opened, with the time of the next probe', {
  timeout: LIMIT_MS,
}, async () => {
  const { store } = opened.tenancy.kernel
  const record = JSON.stringify({ openedAt: Date.now(), placement: 'main' })
  await store.set(null, 'circuit:main', record, 300)
  await store.set('acme', 'circuit', record, 300)
  onTestFinished(async () => {
    await store.delete(null, 'circuit:main')
    await store.delete('acme', 'circuit')
  })
  await using console = await opened.open('/system')
  const { page } = console
  const circuits = page.getByRole('region', { name: 'Circuits' })
  await circuits.getByRole('row', { name: /^main all open/ }).waitFor()
  await circuits.getByRole('row', { name: /^main acme open/ }).waitFor()
  expect(console.complaints).toEqual([])
})
