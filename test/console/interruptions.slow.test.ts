/** What an operator keeps: input and actions, during the end of a session, a change of another operator, and an outage. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type OpenedConsole, openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS, TOKEN } from './console.fixture.ts'

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp', metadata: { region: 'eu' } })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const limit = { timeout: 6 * STEP_LIMIT_MS }

test(
  'a session that ends in the middle of a form: input is kept, and the action continues once after the sign-in',
  limit,
  async () => {
    await using console = await opened.open('/tenants/acme/settings')
    const { page } = console
    await page.getByLabel('Name', { exact: true }).fill('Acme Limited')
    const { data: sessions } = await opened.call('GET', '/sessions')
    for (const { id } of sessions) await opened.call('DELETE', `/sessions/${id}`)
    // The end of the stream may open the dialog before: the click reaches the button below it, too.
    await page.getByRole('button', { name: 'Save changes', includeHidden: true }).dispatchEvent('click')
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    expect(await opened.call('GET', '/tenants/acme')).toMatchObject({ name: 'Acme Corp' })
    await dialog.getByLabel('Admin token').fill(TOKEN)
    await page.keyboard.press('Enter')
    await page.getByText('Acme Limited saved').waitFor()
    expect(await opened.call('GET', '/tenants/acme')).toMatchObject({ name: 'Acme Limited' })
    console.expect(/401/)
    expect(console.complaints).toEqual([])
  },
)

test('a change of another operator is shown, and overwritten only by a choice', limit, async () => {
  await using console = await opened.open('/tenants/acme/settings')
  const { page } = console
  await page.getByLabel('Metadata').fill('{ "region": "us" }')
  await opened.call('PATCH', '/tenants/acme', { metadata: { owner: 'Ada' } })
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('Another operator changed this meanwhile.').waitFor()
  await page.getByText('metadata.owner').waitFor()
  expect(await opened.call('GET', '/tenants/acme')).toMatchObject({ metadata: { region: 'eu', owner: 'Ada' } })
  expect(await page.getByLabel('Metadata').inputValue()).toBe('{ "region": "us" }')
  await page.getByRole('button', { name: 'Apply mine' }).click()
  await page.getByText(/ saved$/).waitFor()
  expect(await opened.call('GET', '/tenants/acme')).toMatchObject({ metadata: { region: 'us', owner: 'Ada' } })
  console.expect(/412/)
  expect(console.complaints).toEqual([])
})

test('without a connection a bar appears, data stays, and both recover', limit, async () => {
  await using console = await opened.open('/tenants')
  const { page, context } = console
  await page.getByRole('link', { name: /Acme/ }).waitFor()
  await context.setOffline(true)
  await page.getByLabel('Search id, name or domain').fill('acm')
  await page.getByText('The service does not respond.').waitFor()
  await page.getByRole('link', { name: /Acme/ }).waitFor()
  await context.setOffline(false)
  await page.getByText('The service does not respond.').waitFor({ state: 'detached' })
  console.expect(/ERR_INTERNET_DISCONNECTED/)
  expect(console.complaints).toEqual([])
})

test('a tenant that does not exist shows the problem with its code', limit, async () => {
  await using console = await opened.open('/tenants/missing')
  const { page } = console
  await page.getByRole('alert').getByText('E_TENANT_NOT_FOUND').waitFor()
  console.expect(/404/)
  expect(console.complaints).toEqual([])
})
