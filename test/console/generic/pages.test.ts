/** The plan of generic screens, without a browser. */
import { describe, expect, test } from 'vitest'
import type { HostOperation } from '../../../src/console/generic/operation.ts'
import { type GenericPage, genericPages, overlap, stateRead, titleOf } from '../../../src/console/generic/pages.ts'
import { hostOperations } from '../../../src/http/console/host-operations.ts'
import { openApiDocument } from '../../../src/http/openapi.ts'
import { permittedOperations } from '../../../src/kernel/api/permissions.ts'
import { Notes, notesSatellite } from './notes.fixture.ts'

const { operations = [] } = notesSatellite(new Notes())
const DOCUMENT = JSON.stringify(openApiDocument(operations, '/admin'))
const describedFor = (...may: string[]) => {
  const grant = { operations: permittedOperations([may], operations), tenants: null, bounds: [may] }
  return hostOperations(new Map([['notes', operations]]), DOCUMENT)(grant as never) as readonly HostOperation[]
}
const ROW_FORMS = ['notes.update', 'notes.delete', 'notes.reveal']
const namesOf = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name)

describe('the description of the operations of a host', () => {
  test('has the permitted operations only', () => {
    expect(namesOf(describedFor('admin'))).toEqual(operations.map(({ name }) => name))
    expect(namesOf(describedFor('notes.list', 'notes.create'))).toEqual(['notes.list', 'notes.create'])
    expect(describedFor('plans.list')).toEqual([])
  })

  test('has the rules of fields; members that no field can hold are JSON', () => {
    const create = describedFor('admin').find(({ name }) => name === 'notes.create')
    expect(create?.body).toEqual({
      text: { type: 'string', minLength: 3, maxLength: 400, required: true, description: 'Plain text' },
      isUrgent: { type: 'boolean' },
      labels: { type: 'array', maxItems: 5 },
      position: { type: 'json', nullable: true },
      count: { type: 'integer', minimum: 1, maximum: 9 },
      passphrase: { type: 'string', format: 'password' },
    })
    expect(create?.params.id).toMatchObject({ type: 'string', required: true })
  })

  test('has the form of results and bodies', () => {
    const byName = new Map(describedFor('admin').map((one) => [one.name, one]))
    const [list, get, remove, counts, bulk] = ['list', 'get', 'delete', 'counts', 'import'].map((name) =>
      byName.get(`notes.${name}`),
    )
    expect(list).toMatchObject({
      result: 'list',
      columns: ['id', 'text', 'status', 'createdAt', 'labels', 'position', 'remark', 'mood'],
    })
    expect(list?.query.status).toEqual({ type: 'string', enum: ['open', 'done'] })
    expect([get?.result, remove?.result, counts?.result]).toEqual(['value', 'none', 'value'])
    expect(bulk).toMatchObject({ isPlainBody: true, body: { body: { type: 'json', required: true } } })
  })
})

describe('generic pages', () => {
  const pages = genericPages(describedFor('admin'), () => false)
  const pageOf = (name: string) => pages.find(({ read }) => read?.name === name)

  test('each read has a page: of a tenant below it, otherwise at the path of the API', () => {
    expect(pages.map(({ path, isOfTenant, isEntry }) => [path, isOfTenant, isEntry])).toEqual([
      ['notes', true, true],
      ['notes/{noteId}', true, false],
      ['note-labels', true, false],
      ['/note-counts', false, true],
    ])
  })

  test('the read of a secret has no page and no link: it is a form', () => {
    expect(describedFor('admin').flatMap(({ name, isSecret }) => (isSecret ? [name] : []))).toEqual(['notes.reveal'])
    expect(pageOf('notes.reveal')).toBeUndefined()
    expect(pages.flatMap(({ links }) => namesOf(links))).not.toContain('notes.reveal')
    const [start] = genericPages(describedFor('notes.reveal'), () => false)
    expect([start?.read, namesOf(start?.forms ?? [])]).toEqual([undefined, ['notes.reveal']])
  })

  test('a change reads the state first, if a GET has the path and its parameters are known', () => {
    const operationOf = (name: string) => describedFor('admin').find((one) => one.name === name) as HostOperation
    const readOf = (name: string, given: Record<string, string>) =>
      stateRead(pageOf('notes.list') as GenericPage, operationOf(name), given)?.name
    expect(readOf('notes.update', { id: 'acme', noteId: 'n-1' })).toBe('notes.get')
    expect(readOf('notes.update', { id: 'acme' })).toBeUndefined()
    expect(readOf('notes.relabel', { id: 'acme', name: 'a' })).toBeUndefined()
  })

  test('rows of a list open the page of a row, and have its operations', () => {
    const list = pageOf('notes.list')
    expect(list?.row).toMatchObject({ operation: { name: 'notes.get' }, param: 'noteId', member: 'id' })
    expect(namesOf(list?.rowForms.map(({ operation }) => operation) ?? [])).toEqual(ROW_FORMS)
    expect(namesOf(list?.forms ?? [])).toEqual(['notes.create'])
  })

  test('the page of a row has the operations below its path, and knows its list', () => {
    const page = pageOf('notes.get')
    expect(namesOf(page?.forms ?? [])).toEqual(ROW_FORMS)
    expect(page?.parentList?.name).toBe('notes.list')
  })

  test('a path of another screen is avoided', () => {
    const taken = (path: string) => ['/tenants/{id}/notes', '/note-counts'].some((one) => overlap(one, path))
    const paths = genericPages(describedFor('admin'), taken).map(({ path }) => path)
    expect(paths).toEqual(['satellite-notes/notes', 'notes/{noteId}', 'note-labels', '/satellite-notes/note-counts'])
  })

  test('operations that no page reaches are forms of the first page, also without a read', () => {
    const only = genericPages(describedFor('notes.get', 'notes.delete', 'notes.import'), () => false)
    const plan = only.map(({ path, isEntry, forms }) => [path, isEntry, namesOf(forms)])
    expect(plan).toEqual([
      ['satellite-notes', true, ['notes.get']],
      ['notes/{noteId}', false, ['notes.delete']],
      ['/satellite-notes', true, ['notes.import']],
    ])
    const [list] = genericPages(describedFor('notes.list', 'notes.delete'), () => false)
    expect(list?.rowForms.map(({ operation }) => operation.name)).toEqual(['notes.delete'])
  })
})

test.each([
  ['/notes', '/notes', true],
  ['/flags/{key}', '/flags/summary', true],
  ['/tenants/{id}/notes', '/tenants/{id}/{tab}', true],
  ['/notes', '/notes/{noteId}', false],
  ['/notes', '/note', false],
])('%s and %s can be the same address: %s', (a, b, isSame) => {
  expect(overlap(a, b)).toBe(isSame)
})

test('names become titles', () => {
  expect(['noteId', 'created_at', 'crm', 'isUrgent'].map(titleOf)).toEqual([
    'Note id',
    'Created at',
    'Crm',
    'Is urgent',
  ])
})
