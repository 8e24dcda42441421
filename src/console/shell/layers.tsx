/** Layers above the page, loaded when the browser is idle: toasts, palette, help, and the sign-in dialog of an ended session. */
import { Dialog } from '../components/dialog.tsx'
import { ToastRegion } from '../components/toast.tsx'
import { expiredStore } from '../data/session.ts'
import { useStore } from '../data/store.ts'
import { Help } from '../keys/help.tsx'
import { Palette } from '../keys/palette.tsx'
import { useAppearance } from './appearance.ts'
import { SignInForm } from './sign-in.tsx'
import { text } from './text.ts'

export default function Layers() {
  const isExpired = useStore(expiredStore)
  const settings = useAppearance().map(({ title, value, choose }) => ({ title, value, run: choose }))
  return (
    <>
      <ToastRegion />
      <Palette settings={settings} />
      <Help />
      {isExpired && (
        <Dialog title={text.expired} description={text.expiredText} onClose={() => undefined}>
          <SignInForm />
        </Dialog>
      )}
    </>
  )
}
