/** Notifications of changed tenant tables as a part of a tenancy. */
import type { Part } from '../../kernel/part-definition.ts'
import { TableChanges } from './schema-generation.ts'

export const tableChangesPart: Part<'tableChanges', TableChanges> = {
  name: 'tableChanges',
  service: ({ database, log }) => new TableChanges(database, log),
  start: (changes) => changes.start(),
  stop: (changes) => changes.stop(),
}
