/** A satellite of a host without a console module: notes of each tenant, and an operation over all tenants. */
import { z } from 'zod'
import type { AnyOperation } from '../../../src/kernel/api/operation.ts'
import { operation, resource } from '../../../src/kernel/api/operation.ts'
import { NotFound } from '../../../src/kernel/base/errors.ts'
import { defineSatellite } from '../../../src/tenancy/satellite.ts'
import { TenantId } from '../../../src/tenants/tenant/tenant.ts'

const Note = z.object({
  id: z.string(),
  text: z.string(),
  status: z.enum(['open', 'done']),
  createdAt: z.iso.datetime(),
  labels: z.array(z.string()),
  position: z.object({ page: z.number().int() }).nullable(),
  remark: z.string().nullable(),
  mood: z.enum(['good', 'bad']).nullable(),
})
type Note = z.output<typeof Note>

const NewNote = z.strictObject({
  text: z.string().min(3).max(400).meta({ description: 'Plain text' }),
  isUrgent: z.boolean().optional(),
  labels: z.array(z.string()).max(5).optional(),
  position: Note.shape.position.optional(),
  count: z.int().min(1).max(9).optional(),
  passphrase: z.string().meta({ format: 'password' }).optional(),
})
const id = { id: TenantId }
const ofNote = z.object({ ...id, noteId: z.string().max(40) })

const Label = z.strictObject({ name: z.string(), color: z.enum(['red', 'blue']), meaning: z.string() })
type Label = z.output<typeof Label>

export class Notes {
  readonly bodies: unknown[] = []
  /** By tenant. No operation reads one label. */
  readonly labels: Record<string, Label[]> = {}
  /** Number of calls that returned a secret. */
  revealed = 0
  readonly #notes = new Map<string, Note[]>()

  of(tenantId: string): Note[] {
    const notes = this.#notes.get(tenantId) ?? []
    this.#notes.set(tenantId, notes)
    return notes
  }

  add(tenantId: string, { text, ...members }: Pick<Note, 'text'> & Partial<Note>): Note {
    const notes = this.of(tenantId)
    const createdAt = '2026-01-02T03:04:05.000Z'
    const empty = { labels: [], position: null, remark: null, mood: null }
    const note: Note = { id: `n-${notes.length + 1}`, text, status: 'open', createdAt, ...empty, ...members }
    notes.push(note)
    return note
  }

  get(tenantId: string, noteId: string): Note {
    const note = this.of(tenantId).find((one) => one.id === noteId)
    if (!note) throw NotFound(`Note "${noteId}" not found.`)
    return note
  }
}

const PER_PAGE = 2

const noteResource = resource({
  state: Note,
  lock: async (notes: Notes, params: z.output<typeof ofNote>) => notes.get(params.id, params.noteId),
})

const operations: readonly AnyOperation<Notes>[] = [
  operation({
    name: 'notes.list',
    method: 'GET',
    path: '/tenants/{id}/notes',
    summary: 'Notes of a tenant',
    params: z.object(id),
    query: z.strictObject({ status: Note.shape.status.optional(), cursor: z.string().optional() }),
    reply: z.object({ data: z.array(Note), nextCursor: z.string().nullable() }),
    handle: async (notes: Notes, { params, query: { status, cursor = '0' } }) => {
      const all = notes.of(params.id).filter((one) => status === undefined || one.status === status)
      const end = Number(cursor) + PER_PAGE
      return { data: all.slice(Number(cursor), end), nextCursor: end < all.length ? String(end) : null }
    },
  }),
  operation({
    name: 'notes.get',
    method: 'GET',
    path: '/tenants/{id}/notes/{noteId}',
    summary: 'A note',
    params: ofNote,
    reply: Note,
    resource: noteResource,
    handle: async (notes: Notes, { params }) => notes.get(params.id, params.noteId),
  }),
  operation({
    name: 'notes.create',
    method: 'POST',
    path: '/tenants/{id}/notes',
    summary: 'Write a note',
    description: 'All operators can read it.',
    params: z.object(id),
    body: NewNote,
    reply: Note,
    handle: async (notes: Notes, { params, body }) => {
      notes.bodies.push(body)
      const { text, labels = [], position = null } = body
      return notes.add(params.id, { text, labels, position })
    },
  }),
  operation({
    name: 'notes.update',
    method: 'PATCH',
    path: '/tenants/{id}/notes/{noteId}',
    summary: 'Change a note',
    params: ofNote,
    body: Note.pick({ text: true, status: true, labels: true, position: true, remark: true, mood: true })
      .extend({ text: NewNote.shape.text })
      .strict()
      .partial(),
    reply: Note,
    resource: noteResource,
    handle: async (notes: Notes, { params, body }) => {
      notes.bodies.push(body)
      return Object.assign(notes.get(params.id, params.noteId), body)
    },
  }),
  operation({
    name: 'notes.delete',
    method: 'DELETE',
    path: '/tenants/{id}/notes/{noteId}',
    summary: 'Delete a note',
    params: ofNote,
    reply: z.void(),
    handle: async (notes: Notes, { params }) => {
      const all = notes.of(params.id)
      all.splice(all.indexOf(notes.get(params.id, params.noteId)), 1)
    },
  }),
  operation({
    name: 'notes.reveal',
    method: 'GET',
    path: '/tenants/{id}/notes/{noteId}/secret',
    summary: 'Show the secret of a note',
    params: ofNote,
    reply: z.object({ secret: z.string() }),
    scope: 'reveal',
    handle: async (notes: Notes, { params }) => {
      notes.revealed++
      return { secret: `secret of ${notes.get(params.id, params.noteId).id}` }
    },
  }),
  operation({
    name: 'notes.labels',
    method: 'GET',
    path: '/tenants/{id}/note-labels',
    summary: 'Labels of notes',
    params: z.object(id),
    reply: z.object({ data: z.array(Label), nextCursor: z.null() }),
    handle: async (notes: Notes, { params }) => ({ data: notes.labels[params.id] ?? [], nextCursor: null }),
  }),
  operation({
    name: 'notes.relabel',
    method: 'PUT',
    path: '/tenants/{id}/note-labels/{name}',
    summary: 'Replace a label',
    params: z.object({ ...id, name: z.string() }),
    body: Label.omit({ name: true }),
    reply: z.void(),
    handle: async (notes: Notes, { body }) => {
      notes.bodies.push(body)
    },
  }),
  operation({
    name: 'notes.counts',
    method: 'GET',
    path: '/note-counts',
    summary: 'Number of notes',
    query: z.strictObject({ above: z.coerce.number().int().min(0).optional() }),
    reply: z.object({ above: z.number(), isComplete: z.boolean(), countedAt: z.string(), details: z.unknown() }),
    handle: async (_: Notes, { query: { above = 0 } }) => ({
      above,
      isComplete: true,
      countedAt: '2026-13-45T99:99:99Z',
      details: { toString: '', text: 'x'.repeat(above * 50_000) },
    }),
  }),
  operation({
    name: 'notes.import',
    method: 'POST',
    path: '/note-imports',
    summary: 'Import notes',
    body: z.array(z.object({ text: z.string() })),
    reply: z.object({ imported: z.number() }),
    handle: async (notes: Notes, { body }) => {
      notes.bodies.push(body)
      return { imported: body.length }
    },
  }),
]

export const notesSatellite = (notes: Notes) =>
  defineSatellite({ name: 'notes', summary: 'Keeps notes', service: () => notes, operations })
