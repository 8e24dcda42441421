/** Layers above the page, loaded when the browser is idle: menu popup, toasts, and the sign-in dialog of an ended session. */
import { Dialog } from '../components/dialog.tsx'
import { MenuPopup } from '../components/menu-popup.tsx'
import { ToastRegion } from '../components/toast.tsx'
import { expiredStore } from '../data/session.ts'
import { useStore } from '../data/store.ts'
import { SignInForm } from './sign-in.tsx'
import { text } from './text.ts'

export default function Layers() {
  const isExpired = useStore(expiredStore)
  return (
    <>
      <MenuPopup />
      <ToastRegion />
      {isExpired && (
        <Dialog title={text.expired} description={text.expiredText} onClose={() => undefined}>
          <SignInForm />
        </Dialog>
      )}
    </>
  )
}
