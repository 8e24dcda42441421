/** Generic screens of a host's satellite: they are made of its operations. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenedConsole, openConsole, PREFIX, READER, SETUP_LIMIT_MS, STEP_LIMIT_MS } from '../console.fixture.ts'
import { describeScreens } from '../screens.fixture.ts'
import { Notes, notesSatellite } from './notes.fixture.ts'

const LIMIT_MS = 6 * STEP_LIMIT_MS
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>\u202Egnp.exe'

const notes = new Notes()
let opened: OpenedConsole
beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [notesSatellite(notes)])
  for (const id of ['acme', 'globex']) await opened.call('POST', '/tenants', { id, name: id })
  for (const text of ['first', HOSTILE, 'third']) notes.add('acme', { text })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

test('a list has pages, rows with links, and filters in the address', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  const tabs = page.getByRole('navigation', { name: 'Tenant' })
  await tabs.getByRole('link', { name: 'Notes', exact: true }).click()
  await page.getByRole('heading', { name: 'Notes of a tenant' }).waitFor()
  const rows = page.locator('tbody tr')
  await rows.nth(1).waitFor()
  expect(await rows.count()).toBe(2)
  await page.getByRole('button', { name: 'Load more' }).click()
  await rows.nth(2).waitFor()
  expect(await rows.nth(1).textContent()).toContain(HOSTILE)
  expect(await page.locator('main img, main script').count()).toBe(0)
  await page.getByLabel('Status').selectOption('done')
  await page.getByText('No entry matches the filters').waitFor()
  expect(page.url()).toContain('/tenants/acme/notes?status=done')
  await page.getByRole('button', { name: 'Clear all' }).click()
  await page.getByRole('link', { name: 'n-2' }).click()
  await page.getByRole('heading', { name: 'A note', exact: true }).waitFor()
  expect(await tabs.getByRole('link', { name: 'Notes' }).getAttribute('aria-current')).toBe('page')
  await page.getByText(HOSTILE).waitFor()
  expect(new URL(page.url()).pathname).toMatch(/\/tenants\/acme\/notes\/n-2$/)
  expect(console.complaints).toEqual([])
})

test('only lists of Tenantry are requested before the libraries are loaded', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/')
  const { page } = console
  const libraries = Promise.withResolvers<void>()
  await page.route(/libraries-/, async (route) => {
    await libraries.promise
    await route.continue()
  })
  const requested = `window.earlyRequests.get('${PREFIX}/session')
    .then((response) => response.clone().json())
    .then(() => new Promise((resolve) => setTimeout(resolve)))
    .then(() => [...window.earlyRequests.keys()])`
  for (const [path, lists] of [
    ['/note-counts', []],
    ['/tenants', [`${PREFIX}/tenants`]],
  ] as const) {
    await page.goto(`${PREFIX}/console${path}`, { waitUntil: 'commit' })
    await page.waitForResponse(/\/session$/)
    expect(await page.evaluate(requested)).toEqual([`${PREFIX}/session`, ...lists])
  }
  libraries.resolve()
  await page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor()
  expect(console.complaints).toEqual([])
})

test('a value of the address that the operation would reject is ignored and named', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/notes?status=lost&cursor=9&colour=red')
  const { page } = console
  await page.getByRole('link', { name: 'n-1' }).waitFor()
  const message = page.getByRole('status').filter({ hasText: 'The address has values that do not apply here.' })
  await message.getByRole('button', { name: 'Remove colour' }).click()
  await message.getByRole('button', { name: 'Remove status' }).click()
  await message.getByRole('button', { name: 'Remove cursor' }).click()
  await page.waitForURL(({ search }) => search === '')
  expect(await page.getByLabel('Status').inputValue()).toBe('')
  await page.getByLabel('Status').selectOption('open')
  await page.getByRole('link', { name: 'n-1' }).waitFor()
  expect(await message.count()).toBe(0)
  expect(console.complaints).toEqual([])
})

test('a form has the rules of its operation, and shows the result', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/globex/notes')
  const { page } = console
  await page.getByRole('button', { name: 'Write a note' }).click()
  const panel = page.getByRole('complementary', { name: 'Write a note' })
  await panel.getByText('All operators can read it.').waitFor()
  const text = panel.getByLabel('Text')
  expect(await text.getAttribute('minlength')).toBe('3')
  expect(await panel.getByLabel('Passphrase').getAttribute('type')).toBe('password')
  await text.fill('ab')
  await panel.getByRole('button', { name: 'Send' }).click()
  await panel.locator('.field-error').waitFor()
  await text.fill('A note of globex')
  await panel.getByLabel('Labels').fill('red\nblue')
  await panel.getByLabel('Position').fill('{ "page": ')
  await panel.getByRole('button', { name: 'Send' }).click()
  await panel.getByText('Enter a JSON value').waitFor()
  await panel.getByLabel('Position').fill('{ "page": 7 }')
  await panel.getByLabel('Is urgent').selectOption('No')
  await panel.getByRole('button', { name: 'Send' }).click()
  await panel.getByRole('heading', { name: 'Result' }).waitFor()
  expect(notes.bodies.at(-1)).toEqual({
    text: 'A note of globex',
    labels: ['red', 'blue'],
    position: { page: 7 },
    isUrgent: false,
  })
  await panel.locator('footer, p').getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name: 'n-1' }).waitFor()
  expect(console.complaints).toEqual([])
})

test('a change begins with the present values; a deletion is confirmed and opens the list', {
  timeout: LIMIT_MS,
}, async () => {
  const { id } = notes.add('acme', { text: 'to change' })
  await using console = await opened.open('/tenants/acme/notes')
  const { page } = console
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByRole('button', { name: `Actions for ${id}` }).click()
  await page.getByRole('menuitem', { name: 'Change a note' }).click()
  const change = page.getByRole('complementary', { name: 'Change a note' })
  await change.getByLabel('Text').waitFor()
  expect(await change.getByLabel('Text').inputValue()).toBe('to change')
  await change.getByLabel('Text').fill('changed')
  await change.getByLabel('Status').selectOption('done')
  await change.getByRole('button', { name: 'Send' }).click()
  await change.getByRole('heading', { name: 'Result' }).waitFor()
  expect(notes.get('acme', id)).toMatchObject({ text: 'changed', status: 'done' })
  expect(notes.bodies.at(-1)).toEqual({ text: 'changed', status: 'done' })
  await page.getByRole('button', { name: 'Delete a note' }).click()
  await page.getByRole('complementary', { name: 'Delete a note' }).getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('alertdialog')
  expect(await dialog.getByRole('button', { name: 'Delete' }).getAttribute('aria-disabled')).toBe('true')
  await dialog.getByRole('textbox').fill(id)
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('heading', { name: 'Notes of a tenant' }).waitFor()
  expect(notes.of('acme').map((note) => note.id)).not.toContain(id)
  console.expect(/status of 404/)
  expect(console.complaints).toEqual([])
})

test('a change sends changed members, and is rejected if the object has changed meanwhile', {
  timeout: LIMIT_MS,
}, async () => {
  const [first, second] = [notes.add('globex', { text: 'one of two' }), notes.add('globex', { text: 'two of two' })]
  await using console = await opened.open(`/tenants/globex/notes/${first.id}?open=notes.update`)
  const { page } = console
  const change = page.getByRole('complementary', { name: 'Change a note' })
  await change.getByLabel('Text').fill('not sent')
  // The panel of another object has other fields.
  await page.evaluate(`history.pushState({}, '', location.href.replace('${first.id}', '${second.id}'))`)
  await change.locator('textarea', { hasText: 'two of two' }).waitFor()
  expect(await change.getByLabel('Text').inputValue()).toBe('two of two')
  second.labels = ['changed meanwhile']
  await change.getByLabel('Status').selectOption('done')
  await change.getByRole('button', { name: 'Send' }).click()
  await change.locator('.problem').waitFor()
  expect(second.status).toBe('open')
  await page.reload()
  await change.getByLabel('Status').selectOption('done')
  await change.getByRole('button', { name: 'Send' }).click()
  await change.getByRole('heading', { name: 'Result' }).waitFor()
  expect(notes.bodies.at(-1)).toEqual({ status: 'done' })
  console.expect(/status of 412/)
  expect(console.complaints).toEqual([])
})

test('a change clears values: null by a button or a choice, a list by its text; an untouched field is not sent', {
  timeout: LIMIT_MS,
}, async () => {
  const { id } = notes.add('globex', { text: 'a note', remark: 'a remark', mood: 'good', labels: ['red'] })
  await using console = await opened.open(`/tenants/globex/notes/${id}?open=notes.update`)
  const { page } = console
  const change = page.getByRole('complementary', { name: 'Change a note' })
  const send = change.getByRole('button', { name: 'Send' })
  await change.getByRole('button', { name: 'Clear Remark' }).click()
  await change.getByLabel('Remark', { exact: true }).and(page.locator(':focus')).waitFor()
  await change.getByLabel('Mood').selectOption('None')
  await change.getByLabel('Labels').fill('')
  await change.getByLabel('Text').fill('')
  await send.click()
  await change.locator('.field-error').waitFor()
  await change.getByLabel('Text').fill('a note')
  await send.click()
  await change.getByRole('heading', { name: 'Result' }).waitFor()
  expect(notes.bodies.at(-1)).toEqual({ remark: null, mood: null, labels: [] })
  expect(notes.get('globex', id)).toMatchObject({ text: 'a note', remark: null, mood: null, labels: [] })
  expect(console.complaints).toEqual([])
})

test('a change without a read begins with the row of its tenant', { timeout: LIMIT_MS }, async () => {
  notes.labels.acme = [{ name: 'a', color: 'red', meaning: 'of acme' }]
  notes.labels.globex = [{ name: 'a', color: 'blue', meaning: 'of globex' }]
  await using console = await opened.open('/tenants/acme/note-labels')
  const { page } = console
  await page.getByText('of acme').waitFor()
  await page.evaluate(`history.pushState({}, '', location.href.replace('acme', 'globex'))`)
  await page.getByText('of globex').waitFor()
  await page.getByRole('button', { name: 'Actions for a' }).click()
  await page.getByRole('menuitem', { name: 'Replace a label' }).click()
  const panel = page.getByRole('complementary', { name: 'Replace a label' })
  await panel.getByLabel('Meaning').fill('new')
  await panel.getByRole('button', { name: 'Send' }).click()
  await panel.waitFor({ state: 'detached' })
  expect(notes.bodies.at(-1)).toEqual({ color: 'blue', meaning: 'new' })
  expect(console.complaints).toEqual([])
})

test('a secret is read by a form only, and its result is not kept', { timeout: LIMIT_MS }, async () => {
  const { id } = notes.add('globex', { text: 'with a secret' })
  await using console = await opened.open(`/tenants/globex/notes/${id}`)
  const { page } = console
  const panel = page.getByRole('complementary', { name: 'Show the secret of a note' })
  const open = page.getByRole('button', { name: 'Show the secret of a note' })
  await open.click()
  await panel.getByRole('button', { name: 'Reveal' }).waitFor()
  expect(notes.revealed).toBe(0)
  await panel.getByRole('button', { name: 'Reveal' }).click()
  await panel.getByText(`secret of ${id}`).waitFor()
  expect(notes.revealed).toBe(1)
  await panel.locator('p').getByRole('button', { name: 'Close' }).click()
  await panel.waitFor({ state: 'detached' })
  await open.click()
  await panel.getByRole('button', { name: 'Reveal' }).waitFor()
  expect(await page.getByText(`secret of ${id}`).count()).toBe(0)
  expect(notes.revealed).toBe(1)
  expect(console.complaints).toEqual([])
})

describe('operations over all tenants', () => {
  test('are in the navigation, with their query in the address', { timeout: LIMIT_MS }, async () => {
    await using console = await opened.open('/')
    const { page } = console
    await page.getByRole('link', { name: 'Notes', exact: true }).click()
    await page.getByRole('heading', { name: 'Notes', level: 1 }).waitFor()
    await page.getByLabel('Above').fill('4')
    await page.getByLabel('Above').press('Enter')
    await page.locator('dd').getByText('4', { exact: true }).waitFor()
    expect(page.url()).toContain('/note-counts?above=4')
    await page.getByText('2026-13-45T99:99:99Z').waitFor()
    await page.getByLabel('Above').fill('5')
    await page.getByLabel('Above').press('Enter')
    await page.getByText(/^The first 200,000 of 250,\d{3} characters/).waitFor()
    await page.getByRole('button', { name: 'Import notes' }).click()
    const panel = page.getByRole('complementary', { name: 'Import notes' })
    await panel.getByLabel('Body').fill('[{ "text": "a" }, { "text": 1 }]')
    await panel.getByRole('button', { name: 'Send' }).click()
    await panel.locator('.field-error, .problem').first().waitFor()
    await panel.getByLabel('Body').fill('[{ "text": "a" }]')
    await panel.getByRole('button', { name: 'Send' }).click()
    await panel.getByRole('heading', { name: 'Result' }).waitFor()
    expect(notes.bodies.at(-1)).toEqual([{ text: 'a' }])
    console.expect(/status of 400|status of 422/)
    expect(console.complaints).toEqual([])
  })

  test('a token that may only read has no forms of changes, and none that reveal a secret', {
    timeout: LIMIT_MS,
  }, async () => {
    await using console = await opened.open('/tenants/acme/notes', { token: READER })
    const { page } = console
    await page.getByRole('link', { name: 'n-1' }).waitFor()
    expect(await page.getByRole('button', { name: 'Write a note' }).count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Actions for n-1' }).count()).toBe(0)
    expect(console.complaints).toEqual([])
  })
})

describeScreens(
  () => opened,
  [
    ['/tenants/acme/notes', 'n-1'],
    ['/tenants/acme/notes/n-2?open=notes.update', 'Change a note'],
    ['/note-counts?open=notes.import', 'Import notes'],
  ],
)
