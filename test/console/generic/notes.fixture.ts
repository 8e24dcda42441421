/** A satellite of a host without a console module: notes of each tenant, and an operation over all tenants. */
import { z } from 'zod'
import type { AnyOperation } from '../../../src/kernel/api/operation.ts'
import { operation } from '../../../src/kernel/api/operation.ts'
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
})
type Note = z.output<typeof Note>

const NewNote = z.strictObject({
  text: z.string().min(3).max(400).meta({ description: 'Plain text' }),
  isUrgent: z.boolean().optional(),
  labels: z.array(z.string()).max(5).optional(),
  position: Note.shape.position.optional(),
  count: z.int().min(1).max(9).optional(),
})
const id = { id: TenantId }
const ofNote = z.object({ ...id, noteId: z.string().max(40) })

export class Notes {
  readonly bodies: unknown[] = []
  readonly #notes = new Map<string, Note[]>()

  of(tenantId: string): Note[] {
    const notes = this.#notes.get(tenantId) ?? []
    this.#notes.set(tenantId, notes)
    return notes
  }

  add(tenantId: string, { text, labels = [], position = null }: Pick<Note, 'text'> & Partial<Note>): Note {
    const notes = this.of(tenantId)
    const createdAt = '2026-01-02T03:04:05.000Z'
    const note: Note = { id: `n-${notes.length + 1}`, text, status: 'open', createdAt, labels, position }
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
      return notes.add(params.id, body)
    },
  }),
  operation({
    name: 'notes.update',
    method: 'PATCH',
    path: '/tenants/{id}/notes/{noteId}',
    summary: 'Change a note',
    params: ofNote,
    body: z.strictObject({ text: NewNote.shape.text.optional(), status: Note.shape.status.optional() }),
    reply: Note,
    handle: async (notes: Notes, { params, body }) => Object.assign(notes.get(params.id, params.noteId), body),
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
    name: 'notes.counts',
    method: 'GET',
    path: '/note-counts',
    summary: 'Number of notes',
    query: z.strictObject({ above: z.coerce.number().int().min(0).optional() }),
    reply: z.object({ above: z.number(), isComplete: z.boolean() }),
    handle: async (_: Notes, { query: { above = 0 } }) => ({ above, isComplete: true }),
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
