class NotesController < ApplicationController
  before_action :load_note, only: %i[show edit update destroy]

  def index
    @notes = current_user.notes.includes(:tags).order(walked_on: :desc)
  end

  def show
  end

  def new
    @note = current_user.notes.new(walked_on: Date.current)
  end

  def create
    @note = current_user.notes.new(note_params)
    if @note.save
      redirect_to @note, notice: t("notes.saved")
    else
      render :new, status: :unprocessable_entity
    end
  end

  def edit
  end

  def update
    if @note.update(note_params)
      redirect_to @note, notice: t("notes.saved")
    else
      render :edit, status: :unprocessable_entity
    end
  end

  def destroy
    @note.destroy
    redirect_to notes_path
  end

  private

  def load_note
    @note = current_user.notes.find(params[:id])
  end

  def note_params
    params.require(:note).permit(:title, :body, :walked_on, :public, tag_ids: [])
  end
end
