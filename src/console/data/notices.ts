/** Messages about finished actions. The toast region shows them. */
import { createStore } from './store.ts'

export interface Notice {
  readonly text: string
  /** Details below the text. */
  readonly detail?: string
  readonly isError?: boolean
  /** Reverts the action. */
  readonly undo?: () => unknown
}

export interface NumberedNotice extends Notice {
  readonly number: number
}

export const noticeStore = createStore<NumberedNotice | undefined>(undefined)

let last = 0
export function notify(notice: Notice): void {
  noticeStore.set({ ...notice, number: ++last })
}
