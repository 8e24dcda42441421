/** A console module of a host's satellite: served unchanged, under the policy, with the React of the page. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, inject, test } from 'vitest'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'
import { Notes, notesSatellite } from './generic/notes.fixture.ts'

const MODULE = `
import { Component, createElement, useState } from 'react'
import { jsx } from 'react/jsx-runtime'
import { Button, defineConsoleModule, Field, Form, PageHeader, Section, useOperation } from 'tenantry/console'

class Named extends Component {
  render() {
    return createElement('p', null, 'component of the host')
  }
}

const Notes = () => {
  const [count, setCount] = useState(0)
  const { data } = useOperation('health.get', {})
  return [
    jsx(PageHeader, { title: 'Notes' }, 'header'),
    jsx(Named, {}, 'named'),
    jsx('p', { children: 'health: ' + data?.status }, 'health'),
    jsx(Button, { onClick: () => setCount(count + 1), children: 'count: ' + count }, 'button'),
  ]
}

const Tab = () =>
  jsx(Section, {
    title: 'Notes of the tenant',
    children: jsx(Form, {
      operation: 'notes.create',
      submit: 'Write',
      onSubmit: () => undefined,
      children: jsx(Field, { name: 'text', label: 'Text' }),
    }),
  })

export default defineConsoleModule({
  name: 'notes',
  screens: [
    { path: '/notes', title: 'Notes', needs: [], navigation: { icon: 'audit', order: 65 }, view: async () => ({ default: Notes }) },
  ],
  tabs: [{ path: 'notes', title: 'Notes', needs: [], view: async () => ({ default: Tab }) }],
})
`

test('a module of a host has a screen and a tab in place of generic ones, with the rules of its operations', {
  timeout: SETUP_LIMIT_MS + 6 * STEP_LIMIT_MS,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-console-'))
  const file = join(folder, 'console.js')
  await writeFile(file, MODULE)
  const notes = { ...notesSatellite(new Notes()), console: pathToFileURL(file) }
  try {
    await using opened = await openConsole(inject('postgresUrl'), [notes], {
      console: { name: 'Acme Operations', links: [{ title: 'Back office', url: 'https://backoffice.example/{id}' }] },
    })
    await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
    await using console = await opened.open('/')
    const { page } = console
    await page.getByRole('link', { name: 'Notes' }).click()
    await page.getByText('component of the host').waitFor()
    await page.getByText('health: ok').waitFor()
    await page.getByRole('button', { name: 'count: 0' }).click()
    await page.getByRole('button', { name: 'count: 1' }).waitFor()
    expect(await page.title()).toBe('Notes · Acme Operations')
    await page.goto(`${page.url().replace('/notes', '')}/tenants/acme/notes`)
    await page.getByRole('heading', { name: 'Notes of the tenant' }).waitFor()
    expect(await page.getByLabel('Text').getAttribute('minlength')).toBe('3')
    expect(await page.getByRole('link', { name: 'Back office' }).getAttribute('href')).toBe(
      'https://backoffice.example/acme',
    )
    expect(console.complaints).toEqual([])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a module that cannot be loaded leaves the other screens', {
  timeout: SETUP_LIMIT_MS + STEP_LIMIT_MS,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-console-'))
  const file = join(folder, 'console.js')
  await writeFile(file, 'export default defineConsoleModule(')
  const broken = defineSatellite({
    name: 'broken',
    summary: 'Broken',
    service: () => ({}),
    console: pathToFileURL(file),
  })
  try {
    await using opened = await openConsole(inject('postgresUrl'), [broken])
    await using console = await opened.open('/tenants')
    const { page } = console
    await page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor()
    await page.getByText('The screens of “broken” could not be loaded.').first().waitFor()
    console.expect(/SyntaxError|Unexpected/)
    expect(console.complaints).toEqual([])
  } finally {
    await rm(folder, { recursive: true })
  }
})
