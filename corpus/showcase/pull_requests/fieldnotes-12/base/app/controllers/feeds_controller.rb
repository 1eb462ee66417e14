class FeedsController < ApplicationController
  skip_before_action :require_member

  def show
    notes = Note.where(public: true).order(walked_on: :desc).limit(50)
    render json: {
      title: t("feed.title"),
      notes: notes.map { |note| { title: note.title, walked_on: note.walked_on } }
    }
  end
end
