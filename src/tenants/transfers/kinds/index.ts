/** The handlers of all kinds, and their names in the audit log. */

import type { Kind } from '../model/transfer.ts'
import { backup } from './backup.ts'
import { clone } from './clone.ts'
import type { TransferHandler } from './dependencies.ts'
import { move, undo } from './move.ts'
import { restore } from './restore.ts'
import { rehearsal } from './restore-drill.ts'

export const HANDLERS: Readonly<Record<Kind, TransferHandler>> = { backup, restore, rehearsal, clone, move, undo }

/** Operation names for the audit log. */
export const ACTIONS: Readonly<Record<Kind, string>> = {
  backup: 'backups.create',
  restore: 'backups.restore',
  rehearsal: 'backups.restore',
  clone: 'tenants.clone',
  move: 'tenants.move',
  undo: 'tenants.move',
}
